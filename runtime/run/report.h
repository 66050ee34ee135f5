// What one rank brings back from a step, and how it travels to whoever started the ranks.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/run/options.h"
#include "runtime/run/shard.h"

namespace s2t {

struct RankReport {
  using AtMicrobatch = std::pair<int64_t, TensorId>;

  Rank rank;
  std::string kernels;                  // what computed its ops: "host", "cuda"
  std::vector<TaggedCall> calls;        // in issue order
  std::map<AtMicrobatch, Held> values;  // all that is not ragged, as produced
  std::map<AtMicrobatch, Held> input_gradients;
  std::map<TensorId, Held> gradients;  // of parameters, synchronised
  std::map<TensorId, Held> updated;    // parameters after the step
};

std::string pack(const RankReport& report);
RankReport unpack_report(const std::string& bytes);

}  // namespace s2t
