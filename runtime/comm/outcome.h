// What became of each rank, and the report made of it.
#pragma once

#include <optional>

#include "runtime/comm/backend.h"

namespace s2t {

struct RankOutcome {
  std::string result;
  std::optional<RankFailure> failure;
  std::exception_ptr thrown;  // in this process only
};

// By rank. The failure of `found_by`, which met the cause, comes first.
RunResult gather(std::vector<RankOutcome> outcomes, Rank found_by);

}  // namespace s2t
