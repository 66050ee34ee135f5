#include "analyzer/backward/sharding_units.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "analyzer/backward/gradient_sync.h"

namespace s2t {
namespace {

void span(ShardingUnit& unit, OpId op) {
  if (!unit.first.valid() || op < unit.first) unit.first = op;
  if (!unit.last.valid() || op > unit.last) unit.last = op;
}

// The named parameters as far as this stage uses them.
ShardingUnit unit_of(const Graph& graph, const std::set<std::string>& names, int stage) {
  ShardingUnit unit;
  unit.stage = stage;
  for (const TensorId p : parameters_of(graph)) {
    if (!names.count(graph.value(p).name)) continue;
    bool here = false;
    for (const Use& use : graph.value(p).uses) {
      if (graph.op(use.op).stage != stage) continue;
      here = true;
      span(unit, use.op);
    }
    if (here) unit.members.push_back(p);
  }
  return unit;
}

ShardingUnit root_of(const Graph& graph, const std::set<std::string>& names, int stage) {
  ShardingUnit root = unit_of(graph, names, stage);
  root.root = true;
  for (size_t o = 0; o < graph.ops.size(); ++o)
    if (graph.ops[o].stage == stage) span(root, OpId(o));
  return root;
}

bool runs(const BackwardStep& step, const ShardingUnit& unit) {
  return step.kind == BackwardStep::Kind::op && step.op >= unit.first && step.op <= unit.last;
}

}  // namespace

std::vector<ShardingUnit> sharding_units(const Graph& graph) {
  std::set<std::string> unnamed;
  for (const TensorId p : parameters_of(graph)) unnamed.insert(graph.value(p).name);
  for (const auto& names : graph.sync.units)
    for (const std::string& name : names) unnamed.erase(name);

  std::vector<ShardingUnit> units;
  for (int stage = 0; stage < graph.stages; ++stage) {
    for (const auto& names : graph.sync.units)
      units.push_back(unit_of(graph, {names.begin(), names.end()}, stage));
    units.push_back(root_of(graph, unnamed, stage));
  }
  units.erase(std::remove_if(units.begin(), units.end(),
                             [](const ShardingUnit& u) { return u.members.empty(); }),
              units.end());
  std::stable_sort(units.begin(), units.end(), [](const ShardingUnit& a, const ShardingUnit& b) {
    return std::tuple(a.stage, !a.root, a.first) < std::tuple(b.stage, !b.root, b.first);
  });
  return units;
}

OpId first_backward_op(const ShardingUnit& unit, const Backward& backward) {
  const auto it = std::find_if(backward.steps.begin(), backward.steps.end(),
                               [&](const BackwardStep& step) { return runs(step, unit); });
  return it == backward.steps.end() ? OpId() : it->op;
}

OpId last_backward_op(const ShardingUnit& unit, const Backward& backward) {
  const auto it = std::find_if(backward.steps.rbegin(), backward.steps.rend(),
                               [&](const BackwardStep& step) { return runs(step, unit); });
  return it == backward.steps.rend() ? OpId() : it->op;
}

}  // namespace s2t
