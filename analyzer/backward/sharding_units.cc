#include "analyzer/backward/sharding_units.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "analyzer/backward/gradient_leaves.h"

namespace s2t {
namespace {

void span(ShardingUnit& unit, OpId op) {
  if (!unit.first.valid() || op < unit.first) unit.first = op;
  if (!unit.last.valid() || op > unit.last) unit.last = op;
}

bool runs(const BackwardStep& step, const ShardingUnit& unit) {
  return step.kind == BackwardStep::Kind::op && step.op >= unit.first && step.op <= unit.last;
}

}  // namespace

std::vector<ShardingUnit> sharding_units(const Graph& graph) {
  std::map<std::string_view, size_t> unit_of;  // by parameter; the others are of the root
  for (size_t u = 0; u < graph.sync.units.size(); ++u)
    for (const std::string& name : graph.sync.units[u]) unit_of[name] = u;
  const size_t root = graph.sync.units.size();

  std::map<std::pair<int, size_t>, ShardingUnit> found;  // by stage and unit
  for (const TensorId p : parameters_of(graph)) {
    const auto named = unit_of.find(graph.value(p).name);
    const size_t u = named == unit_of.end() ? root : named->second;
    for (const Use& use : graph.value(p).uses) {
      ShardingUnit& unit = found[{graph.op(use.op).stage, u}];
      if (unit.members.empty() || unit.members.back() != p) unit.members.push_back(p);
      span(unit, use.op);
    }
  }
  for (size_t o = 0; o < graph.ops.size(); ++o)  // a root spans its stage
    if (const auto at = found.find({graph.ops[o].stage, root}); at != found.end())
      span(at->second, OpId(o));

  std::vector<ShardingUnit> units;
  for (auto& [at, unit] : found) {
    unit.stage = at.first;
    unit.root = at.second == root;
    units.push_back(std::move(unit));
  }
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
