// What a run is asked to do, and what it says about each call.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/recording.h"

namespace s2t {

// What a call was for. -1: none.
struct Tag {
  std::string phase;  // "forward", "backward", "grad_sync", "step"
  std::string tensor;
  int64_t chunk = -1;
  int64_t microbatch = -1;
  std::vector<std::string> members;  // tensors of one bucket
  std::string family;                // process group family, filled in when the call is made
};

struct TaggedCall {
  RecordedCall call;
  Tag tag;
};

// Deliberate damage, for tests that show that the checks bite. Never set by a user's run.
struct RunHooks {
  // Collectives that are not issued: every rank goes on as if it were alone.
  struct Skip {
    std::string phase, tensor;
  };
  std::optional<Skip> skip;
  bool skip_gradient_scale = false;  // sums where means were asked for

  enum class Trouble { none, throws, dies, stalls };
  struct Failure {
    Rank rank;
    size_t call = 0;  // before this call of the rank
    Trouble trouble = Trouble::none;
  };
  std::optional<Failure> failure;
};

struct StepOptions {
  bool integers = false;  // leaves hold small integers, for exact sums
  double learning_rate = 0.0625;
  RunHooks hooks;
  // Predicted event ids by rank, in issue order, only used as names: what an annotation shows.
  std::vector<std::vector<int64_t>> event_ids;
};

}  // namespace s2t
