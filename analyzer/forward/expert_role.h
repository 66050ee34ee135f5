// Which values move among the ranks of experts, by what they are and not by which ranks these are.
// Not known here: the names of groups (mesh/family.h).
#pragma once

#include <algorithm>

#include "analyzer/forward/plan.h"
#include "analyzer/graph/passes.h"

namespace s2t {

// Rows of experts, their parameters, tokens gathered for them, and what they leave as terms.
inline bool moves_among_experts(const Graph& graph, const Forward& forward, TensorId value) {
  const Value& v = graph.value(value);
  if (v.routing || v.expert) return true;
  const Op* maker = v.leaf() ? nullptr : &graph.op(v.producer);
  if (maker && forward.layouts[value.at()].partial() &&
      (maker->is("moe_combine") || maker->is("moe_collect") ||
       (maker->is("cast") && moves_among_experts(graph, forward, maker->inputs[0]))))
    return true;
  return std::any_of(v.uses.begin(), v.uses.end(),
                     [&](const Use& use) { return adds_gradients(graph.op(use.op)); });
}

}  // namespace s2t
