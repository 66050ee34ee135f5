// What each module does once per microbatch, and which modules do the same: the short form of a
// model of many alike layers.
//
//   layers 0..19, forward: 2 all_gather in 16,777,216 B out 134,217,728 B on tp
//
// Not known here: the order of calls within a module, which ranks are busiest (program/tally.h).
#pragma once

#include <string>
#include <vector>

#include "analyzer/program/program.h"
#include "analyzer/program/selection.h"

namespace s2t {

// Calls of one module that are alike. Where one call differs from rank to rank (ragged routing),
// `least` and `most` are those with the fewest and the most input bytes.
struct ModuleCalls {
  Collective op = Collective::all_reduce;
  size_t family = 0;
  DType dtype = DType::f32;
  Count calls = 0;
  Volume least, most;

  bool operator==(const ModuleCalls&) const = default;
};

struct ModuleRow {
  std::string stem;              // "layers"
  std::vector<int64_t> numbers;  // 0 to 19; empty: not numbered
  Phase phase = Phase::forward;
  Count times = 0;              // per step, of each: once a microbatch, or once
  std::vector<int64_t> stages;  // pipeline coordinates that have one of them; empty: no pipeline
  std::vector<ModuleCalls> calls;
};

// In model order: forward, then backward from the last stage to the first, each followed by the
// messages between stages, then what comes once.
std::vector<ModuleRow> module_rows(const Program& program, const Selection& selection = {});

}  // namespace s2t
