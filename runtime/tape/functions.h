// The communicating functions of a backward pass, as the frameworks write them.
//
// Known here: on one mesh axis, what the backward of a conversion does with a gradient, given how
// the value was held where it was produced, how this rank holds the gradient that arrives (a tag
// that kernels put on it at run time), and the axis' convention. Whole and partial are told apart
// by that tag only. Not known here: which ops exist, what is needed, when anything runs.
#pragma once

#include <span>
#include <string_view>

#include "analyzer/forward/plan.h"

namespace s2t {

struct GradientFunction {
  Placement::Kind produced;  // the value, at its producer
  Placement::Kind held;      // the gradient, as it arrives
  bool global, per_rank;     // conventions for which the row holds
  Placement::Kind result;    // the gradient, as the producer's backward takes it
  std::string_view like;     // who writes it so
};
std::span<const GradientFunction> gradient_functions();

// How the producer of a value takes its gradient when it is held like `held`.
Layout home_of(const Graph& graph, const Layout& produced, const Layout& held);

// How a parameter takes a gradient that came through a conversion: only what was converted is
// undone, the rest is left to whoever synchronises parameters.
Layout home_of_parameter(const Graph& graph, const Conversion& conversion, const Layout& held);

// The tag that an op's local backward kernel puts on the gradient of one operand, when its own
// output gradients are held like `arrived`:
//   a shard has a shard's gradient; a term of a sum has the sum's whole gradient; a replica of
//   which this rank used a part gets a term; a replica on which every rank did all the work gets
//   what came in.
Layout kernel_tag(const Graph& graph, const Op& op, const OpPlan& plan, size_t operand,
                  const Layout& arrived);

}  // namespace s2t
