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

using Found = std::map<std::pair<int, size_t>, ShardingUnit>;  // by stage and unit

bool within(std::string_view module, std::string_view of) {
  return of.empty() || (module.substr(0, of.size()) == of &&
                        (module.size() == of.size() || module[of.size()] == '.'));
}

// The unit of each parameter; of one that several units list, that of the op's module. The others are
// of the root.
class UnitOf {
 public:
  explicit UnitOf(const Graph& graph) : graph_(graph) {
    for (size_t u = 0; u < graph.sync.units.size(); ++u)
      for (const std::string& name : graph.sync.units[u].parameters) units_.emplace(name, u);
  }
  size_t operator()(TensorId p, OpId op) const {
    const auto [at, end] = units_.equal_range(graph_.value(p).name);
    if (at == end) return graph_.sync.units.size();
    for (auto it = at; it != end; ++it)
      if (within(graph_.op(op).module, graph_.sync.units[it->second].module)) return it->second;
    return at->second;
  }

 private:
  const Graph& graph_;
  std::multimap<std::string_view, size_t> units_;
};

// A root spans its stage, a unit its module: "layers.3" all of "layers.3.attn". Under ZeRO 3 a
// module only says which readers of a parameter are meant.
void span_modules(const Graph& graph, Found& found) {
  const size_t root = graph.sync.units.size();
  std::map<std::string_view, size_t> unit_of;
  for (size_t u = 0; u < root && graph.sync.kind == SyncKind::fsdp; ++u)
    if (!graph.sync.units[u].module.empty()) unit_of[graph.sync.units[u].module] = u;
  const auto extend = [&](const Op& op, size_t o, size_t u) {
    if (const auto at = found.find({op.stage, u}); at != found.end()) span(at->second, OpId(o));
  };
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    const Op& op = graph.ops[o];
    extend(op, o, root);
    const std::string_view module = op.module;
    for (size_t end = 0; end != std::string_view::npos && !unit_of.empty();) {
      end = module.find('.', end + 1);
      if (const auto at = unit_of.find(module.substr(0, end)); at != unit_of.end())
        extend(op, o, at->second);
    }
  }
}

// Routed experts run from the dispatch of their rows to what they are combined into: both happen in
// hooks of the module that is wrapped.
void span_exchanges(const Graph& graph, Found& found) {
  std::map<std::pair<int, std::string_view>, ShardingUnit*> experts;  // by stage and module
  for (auto& [at, unit] : found)
    if (at.second < graph.sync.units.size() && graph.sync.units[at.second].module.empty() &&
        graph.sync.kind == SyncKind::fsdp && graph.value(unit.members[0]).expert)
      experts[{at.first, graph.op(unit.first).module}] = &unit;
  if (experts.empty()) return;
  const auto routed = [&](TensorId t) { return graph.value(t).routing.has_value(); };
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    const Op& op = graph.ops[o];
    const auto at = experts.find({op.stage, op.module});
    if (at != experts.end() && (std::any_of(op.inputs.begin(), op.inputs.end(), routed) ||
                                std::any_of(op.outputs.begin(), op.outputs.end(), routed)))
      span(*at->second, OpId(o));
  }
}

}  // namespace

std::vector<ShardingUnit> sharding_units(const Graph& graph) {
  const UnitOf unit_of(graph);
  const size_t root = graph.sync.units.size();

  Found found;
  for (const TensorId p : parameters_of(graph)) {
    for (const Use& use : graph.value(p).uses) {
      ShardingUnit& unit = found[{graph.op(use.op).stage, unit_of(p, use.op)}];
      if (unit.members.empty() || unit.members.back() != p) unit.members.push_back(p);
      span(unit, use.op);
    }
  }
  span_modules(graph, found);
  span_exchanges(graph, found);

  std::vector<ShardingUnit> units;
  for (auto& [at, unit] : found) {
    unit.stage = at.first;
    unit.root = at.second == root;
    unit.number = at.second;
    units.push_back(std::move(unit));
  }
  std::stable_sort(units.begin(), units.end(), [](const ShardingUnit& a, const ShardingUnit& b) {
    return std::tuple(a.stage, !a.root, a.first, -a.last.value) <
           std::tuple(b.stage, !b.root, b.first, -b.last.value);
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

bool has_end_hook(const Graph& graph, const ShardingUnit& unit, const Needs& needs) {
  const auto enters = [&](TensorId t) {
    const Value& v = graph.value(t);
    return !v.parameter && (v.leaf() || v.producer < unit.first);
  };
  const auto requires_grad = [&](TensorId t) -> bool { return needs.requires_grad[t.at()]; };
  for (OpId o = unit.first; o <= unit.last; ++o.value) {
    const Op& op = graph.op(o);
    if (op.stage != unit.stage) continue;
    const std::vector<TensorId>& from = op.is("transfer") ? op.outputs : op.inputs;
    for (const TensorId t : from)
      if ((op.is("transfer") || enters(t)) && requires_grad(t)) return true;
  }
  return false;
}

}  // namespace s2t
