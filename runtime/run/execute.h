// One training step of a planned graph on one rank of a world.
//
// Shards the leaves, runs the pipeline schedule's forwards and backwards on a tape per stage and
// microbatch, exchanges what the borders need, synchronises gradients and takes an SGD step. Every
// call goes through recording communicators. Not known here: any prediction.
#pragma once

#include "analyzer/forward/plan.h"
#include "runtime/comm/backend.h"
#include "runtime/run/report.h"

namespace s2t {

RankReport run_step(World& world, const Graph& graph, const Forward& forward,
                    const StepOptions& options);

// All ranks of a backend. Reports are there if and only if `result.ok()` (and this process is the
// one that reports).
struct StepResult {
  RunResult result;
  std::vector<RankReport> reports;
};
StepResult run_step_on(const Backend& backend, RunOptions run, const Graph& graph,
                       const Forward& forward, const StepOptions& options);

}  // namespace s2t
