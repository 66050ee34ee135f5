#include "analyzer/report/fold.h"

#include <algorithm>

namespace s2t {
namespace {

// The best run from each position on, over all periods.
std::vector<Run> best_runs(size_t begin, size_t end, size_t longest_period, const Alike& alike) {
  std::vector<Run> best(end - begin);
  for (size_t period = 1; period <= longest_period && 2 * period <= end - begin; ++period) {
    size_t equal = 0;  // positions from i on that are alike the one a period later
    for (size_t i = end - period; i-- > begin;) {
      equal = alike(i, i + period) ? equal + 1 : 0;
      const size_t times = 1 + equal / period;
      Run& known = best[i - begin];
      if (times >= (period == 1 ? 3u : 2u) && times * period > known.times * known.period)
        known = {i, period, times};
    }
  }
  return best;
}

}  // namespace

std::vector<Run> find_runs(size_t begin, size_t end, size_t longest_period, const Alike& alike) {
  std::vector<Run> runs;
  if (begin >= end) return runs;
  const std::vector<Run> best = best_runs(begin, end, longest_period, alike);
  for (size_t i = begin; i < end;) {
    const Run& run = best[i - begin];
    if (run.times > 0) runs.push_back(run);
    i = run.times > 0 ? run.end() : i + 1;
  }
  return runs;
}

}  // namespace s2t
