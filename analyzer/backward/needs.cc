#include "analyzer/backward/needs.h"

#include <fmt/format.h>

#include <set>

namespace s2t {
namespace {

bool carries(const Graph& graph, const Op& op, size_t operand) {
  return !stops(*op.def, *op.notation, operand) &&
         is_differentiable(graph.value(op.inputs[operand]).dtype);
}

std::vector<bool> trainable_upstream(const Graph& graph, bool everything) {
  std::vector<bool> rg(graph.values.size());
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    if (value.leaf()) rg[v] = value.requires_grad || (everything && is_differentiable(value.dtype));
  }
  for (const Op& op : graph.ops)
    for (const TensorId out : op.outputs) {
      bool any = op.is("transfer") && graph.value(out).requires_grad;
      for (size_t i = 0; i < op.inputs.size(); ++i)
        any |= rg[op.inputs[i].at()] && carries(graph, op, i);
      rg[out.at()] = any && is_differentiable(graph.value(out).dtype);
    }
  return rg;
}

// A transfer passes the need on whether or not its input requires grad: the message is sent anyway,
// and what the receiver does with it is decided by `requires_grad`.
std::vector<bool> reached_by_loss(const Graph& graph) {
  std::vector<bool> reached(graph.values.size());
  if (graph.loss.valid()) reached[graph.loss.at()] = true;
  for (size_t o = graph.ops.size(); o-- > 0;) {
    const Op& op = graph.ops[o];
    bool any = false;
    for (const TensorId out : op.outputs) any |= reached[out.at()];
    for (size_t i = 0; any && i < op.inputs.size(); ++i)
      if (carries(graph, op, i)) reached[op.inputs[i].at()] = true;
  }
  return reached;
}

}  // namespace

Needs find_needed_gradients(const Graph& graph, bool everything) {
  Needs needs{trainable_upstream(graph, everything), reached_by_loss(graph), {}};
  for (size_t v = 0; v < graph.values.size(); ++v)
    needs.needed.push_back(needs.requires_grad[v] && needs.reached[v]);
  return needs;
}

std::string why_pruned(const Graph& graph, const Needs& needs, TensorId value) {
  if (!needs.reached[value.at()]) return "the loss does not depend on " + graph.value(value).name;
  std::vector<std::string> leaves;
  std::set<TensorId> seen{value};
  std::vector<TensorId> todo{value};
  while (!todo.empty()) {
    const TensorId v = todo.back();
    todo.pop_back();
    const Value& x = graph.value(v);
    if (x.leaf()) {
      if (is_differentiable(x.dtype)) leaves.push_back(x.name);
      continue;
    }
    const Op& op = graph.op(x.producer);
    for (size_t i = op.inputs.size(); i-- > 0;)
      if (carries(graph, op, i) && seen.insert(op.inputs[i]).second) todo.push_back(op.inputs[i]);
  }
  if (leaves.empty())
    return "no leaf upstream of " + graph.value(value).name + " carries a gradient";
  if (leaves.size() == 1) return leaves[0] + " does not require grad";
  const size_t more = leaves.size() - 2;
  return leaves[0] + (more ? ", " : " and ") + leaves[1] +
         (more ? fmt::format(" and {} more leaves", more) : "") + " do not require grad";
}

}  // namespace s2t
