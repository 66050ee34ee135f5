// Whether a run computed what the unsharded model computes.
//
// Known here: how the parts of ranks make up whole tensors, by which factor a gradient may differ
// from the unsharded one under the model's conventions, and how exact numbers can be. Not known
// here: events, predictions.
#pragma once

#include <string>
#include <vector>

#include "runtime/run/reference.h"
#include "runtime/run/report.h"

namespace s2t {

struct Check {
  std::string name;  // "forward", "gradients", ...
  bool passed = true;
  // Greatest error, relative to its tensor, of an update to the step, or to what rounding does where
  // that is more; or a count.
  double figure = 0;
  double tolerance = 0;  // 0: exact
  std::string text;      // what was compared, or what failed first
};

struct Judgement {
  std::vector<Check> checks;
  double max_abs_error = 0;  // over forward values and gradients
};

// `exact`: the model's data sums without rounding, so nothing may differ at all.
Judgement judge(const Graph& graph, const Forward& forward, const Reference& reference,
                const std::vector<RankReport>& reports, bool exact, double learning_rate);

// Gradients of a run, put together, over those of the unsharded model: product of the sizes of
// per_rank axes on which the loss is redundant, times how many times too large the ranks' means
// add up, and for parameters divided by the synchronisation's divisor.
double gradient_factor(const Graph& graph, const Forward& forward, bool parameter);

// Throws UserError where ranks' means are not one number of times the unsharded ones: means of what
// is sharded differently are added, or of rows that are routed.
void require_comparable_means(const Graph& graph, const Forward& forward);

// Greatest error allowed, relative to the greatest element of a tensor, where the model keeps its
// numbers in this type.
double tolerance_of(DType dtype);

}  // namespace s2t
