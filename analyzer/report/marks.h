// Which collectives a drawing of the graph shows, and where: at an op, at a stage, or behind the
// last backward.
#pragma once

#include <string>
#include <vector>

#include "analyzer/program/program.h"
#include "analyzer/report/filter.h"

namespace s2t {

// Collectives that are drawn as one. `least` and `most` are input bytes of one of them.
struct Mark {
  const Event* event = nullptr;
  const Pruned* pruned = nullptr;  // set: `event` is what is not issued
  Count least = 0, most = 0;
  bool message = false;                     // a send with its receive
  size_t calls = 1;                         // that are alike, each with its numbers
  size_t tensors = 1;                       // in buckets, all calls together
  std::vector<std::string> names;           // of what the framework sends: no arrow has it
  std::vector<int64_t> stages = {};         // that do this alike, if not all
  int32_t before = -1;                      // op that comes next
  size_t most_calls = 0, most_tensors = 0;  // if not `calls` and `tensors`: of stages that differ
};

struct Marks {
  std::vector<std::vector<Mark>> at;       // by op of Program::picture
  std::vector<std::vector<Mark>> buckets;  // by stage: what parameters of several layers share
  std::vector<std::vector<Mark>> batch;    // by stage: of the framework, before an op
  std::vector<Mark> after;                 // of the framework, behind the last backward, in order
};

Marks select_marks(const Program& program, const Filter& filter);

}  // namespace s2t
