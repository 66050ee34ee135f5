// A call that one rank made, as somebody saw it: a runtime, a log, a profiler.
//
// The same key fields as a predicted event. What the observer could not see is not there: unknown
// is not zero. Not known here: predictions, and who observed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/base/dtype.h"
#include "analyzer/comm/collective.h"

namespace s2t {

struct Observation {
  Rank rank;
  Collective op = Collective::all_reduce;
  std::optional<std::string> phase;   // "forward", "backward", "grad_sync", "step"
  std::optional<std::string> family;  // of the process group
  std::vector<Rank> ranks;            // of the process group; empty: not seen
  std::optional<std::string> tensor;
  std::optional<std::vector<std::string>> members;
  std::optional<int64_t> microbatch;  // -1: seen to have none
  std::optional<Rank> peer;           // send, recv
  std::optional<int64_t> batch;       // calls launched together share it; -1: launched alone
  std::optional<DType> dtype;
  std::optional<Count> elements;  // the count argument
  std::optional<Count> input_bytes, output_bytes;
  std::optional<std::vector<Count>> sends, recvs;  // all_to_all: elements per member

  bool operator==(const Observation&) const = default;
};

}  // namespace s2t
