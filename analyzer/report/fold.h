// Finds what repeats in a sequence, so that a stack of alike layers is drawn once with a count.
//
// Known here: positions and whether two are alike. Not known here: what stands there.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace s2t {

// `times` alike blocks of `period` positions from `first` on.
struct Run {
  size_t first = 0, period = 0, times = 0;
  size_t end() const { return first + period * times; }
  bool operator==(const Run&) const = default;
};

using Alike = std::function<bool(size_t, size_t)>;

// Disjoint runs in [begin, end), ascending. From left to right: the run that covers most, of equal
// ones that of the shortest period. A single position is folded from three on, a block of several
// from two on:  a b c b c b c d  ->  {1, 2, 3}
std::vector<Run> find_runs(size_t begin, size_t end, size_t longest_period, const Alike& alike);

}  // namespace s2t
