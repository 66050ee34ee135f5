// Events that are asked about, counted: calls of one pass by module, phase, kind, group and cause.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/program/owner.h"
#include "analyzer/program/program.h"

namespace s2t {

// What tells counts apart, apart from the number of a layer.
struct Counted {
  std::string stem;  // "layers"
  bool numbered = false;
  Phase phase = Phase::forward;
  Collective op = Collective::all_reduce;
  size_t family = 0;
  CauseKind cause = CauseKind::forward_conversion;
  int64_t times = 1;  // per step
  auto operator<=>(const Counted&) const = default;
};

struct CountedRow {
  Counted what;
  std::vector<int64_t> numbers;  // of the layers that each have so many, ascending
  Count calls = 0;               // of one of them, each time
};

// In the order of the events; those of one call count once.
std::vector<CountedRow> counted(const Program& program, const std::vector<Event>& events);

// "layers 0-31", "embed".
std::string modules_text(const CountedRow& row);

}  // namespace s2t
