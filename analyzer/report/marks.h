// Which collectives a drawing of the graph shows, and at which op: the filters of `render`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/program/program.h"
#include "analyzer/report/report.h"

namespace s2t {

// One collective at an op. Events of one call are one mark: `least` and `most` are input bytes.
struct Mark {
  const Event* event = nullptr;
  const Pruned* pruned = nullptr;  // set: `event` is what is not issued
  Count least = 0, most = 0;
  bool message = false;  // a send with its receive
};

struct Marks {
  std::vector<std::vector<Mark>> at;               // by op of Program::picture
  std::vector<std::vector<const Event*>> buckets;  // by stage: what several parameters share
};

// Throws UserError for what the program does not have.
Marks select_marks(const Program& program, const ReportOptions& options);

// Ops that are shown, ascending.
std::vector<int32_t> select_ops(const Program& program, const ReportOptions& options);

// "layers.12.mlp" -> 12: the first number that stands alone between dots or underscores or ends a
// word ("l0_wq" -> 0) in the module, else in the name.
std::optional<int64_t> layer_of(const PictureOp& op);

}  // namespace s2t
