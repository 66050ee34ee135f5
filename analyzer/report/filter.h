// What the filters of `render` leave in: collectives by phase and axis, ops by layers, both by
// rank.
//
// An event of a layer is one whose op is in it; a bucket is in every layer that it has a parameter
// of. Not known here: how anything is drawn.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/program/program.h"
#include "analyzer/program/selection.h"
#include "analyzer/report/report.h"

namespace s2t {

class Filter {
 public:
  // Throws UserError for a rank, axis, phase or range of layers that the program does not have.
  Filter(const Program& program, const ReportOptions& options);

  bool wants(const Event& event) const;   // by phase, axis and layers
  bool issues(const Event& event) const;  // by rank
  std::vector<int32_t> ops() const;       // that are shown, ascending
  Selection selection() const { return {rank_, {}, ""}; }

  // "only forward collectives over tp, layers 2 to 5, rank 3"; "" without filters.
  std::string words() const;

  // The program without the events that are not wanted, for counting.
  Program narrowed() const;

 private:
  void choose_layers(const ReportOptions& options);

  const Program& program_;
  std::optional<Rank> rank_;
  std::optional<Phase> phase_;
  std::string axis_;
  std::optional<std::pair<int64_t, int64_t>> layers_;
  std::vector<bool> in_layers_;                      // by op
  std::set<std::string, std::less<>> names_, read_;  // of these ops, and of their parameters
};

// "layers.12.mlp" -> 12: the first number that stands alone between dots or underscores or ends a
// word ("l0_wq" -> 0) in the module, else in the name.
std::optional<int64_t> layer_of(const PictureOp& op);

}  // namespace s2t
