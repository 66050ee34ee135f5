// Numbers that would fit where one does not, in words: for the second half of a refusal.
//
// Not known here: what is counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace s2t {

// Of n, up to 4096: "1, 2, 4 or 8".
std::string divisors(int64_t n);
// Those of n that also `fits`; "1" if none does.
std::string divisors(int64_t n, bool (*fits)(int64_t divisor, int64_t other), int64_t other);

// The multiples of `step` around n, which is none: "4,096 or 4,160 (multiples of 64)" without the
// commas; the next one alone if there is none below.
std::string neighbours(int64_t n, int64_t step);

// `layers` over `stages`, as equal as can be, with the short ones at the ends, where the embedding
// and the output layer are: 126 over 16 is {7, 8, ..., 8, 7}. Empty if there are more stages.
std::vector<int64_t> shares(int64_t layers, int64_t stages);

// As --stage-layers takes it: "7,14x8,7".
std::string run_lengths(const std::vector<int64_t>& numbers);

}  // namespace s2t
