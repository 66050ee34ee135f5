#include "runtime/comm/outcome.h"

namespace s2t {

RunResult gather(std::vector<RankOutcome> outcomes, Rank found_by) {
  RunResult result;
  for (size_t r = 0; r < outcomes.size(); ++r) {
    result.results.push_back(std::move(outcomes[r].result));
    if (!outcomes[r].failure) continue;
    const bool first = Rank(r) == found_by;
    result.failures.insert(first ? result.failures.begin() : result.failures.end(),
                           *outcomes[r].failure);
    if (first || !result.cause) result.cause = outcomes[r].thrown;
  }
  return result;
}

}  // namespace s2t
