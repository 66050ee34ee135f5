#include "runtime/run/groups.h"

#include <algorithm>
#include <set>

#include "analyzer/forward/expert_role.h"
#include "analyzer/mesh/family.h"
#include "runtime/run/leaves.h"
#include "runtime/tape/functions.h"

namespace s2t {
namespace {

class Collector {
 public:
  Collector(const Graph& graph, const Forward& forward) : graph_(graph), forward_(forward) {}

  std::vector<Family> collect() {
    axes();
    for (const Conversion& c : forward_.conversions) steps(c.value, c.steps);
    for (const OpPlan& plan : forward_.ops)
      if (const AtomSet atoms = ring_atoms(plan); graph_.mesh.size(atoms) > 1)
        add(family_over(graph_, atoms, false));
    for (size_t o = graph_.ops.size(); o-- > 0;) backward_of(OpId(o));
    for (size_t v = 0; v < graph_.values.size(); ++v)
      if (graph_.values[v].parameter) parameter(TensorId(v));
    for (const StatedCall& call : graph_.calls) add(family_over(graph_, call.atoms, call.expert));
    std::stable_sort(families_.begin(), families_.end(), [&](const Family& a, const Family& b) {
      return place_in(graph_.group_order, graph_.mesh, a) <
             place_in(graph_.group_order, graph_.mesh, b);
    });
    return std::move(families_);
  }

 private:
  void axes() {
    for (const std::string& name : graph_.group_order)
      if (const Axis* axis = graph_.mesh.find(name)) add(*axis);
    for (const bool expert : {false, true})
      for (size_t i = graph_.mesh.axes().size(); i-- > 0;)
        if (const Axis& axis = graph_.mesh.axes()[i];
            axis.expert == expert && (expert || !axis.part))
          add(axis);
  }

  void add(const Axis& axis) { add(Family{axis.name, {axis.name}, axis.atoms, {}}); }
  void add(const Family& family) {
    if (names_.insert(family.name).second) families_.push_back(family);
  }

  void steps(TensorId value, const std::vector<Step>& steps) {
    for (const Step& s : steps)
      if (s.collective && graph_.mesh.size(s.atoms) > 1)
        add(family_over(graph_, s.atoms, moves_among_experts(graph_, forward_, value)));
  }

  // What bringing home the gradient of each operand may need, whichever way it comes in.
  void backward_of(OpId id) {
    const Op& op = graph_.op(id);
    const OpPlan& plan = forward_.ops[id.at()];
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Layout& produced = forward_.layouts[op.inputs[i].at()];
      for (const Placement arriving : {Placement::R(), Placement::P()}) {
        Layout arrived(graph_.mesh);
        for (size_t a = 0; a < graph_.atoms(); ++a) {
          arrived[AtomIndex(a)] = arriving;
          if (op.redistributes() && plan.result_ports[0][AtomIndex(a)].is_shard())
            arrived[AtomIndex(a)] = plan.result_ports[0][AtomIndex(a)];
        }
        const Layout held = kernel_tag(graph_, op, plan, i, arrived);
        steps(op.inputs[i],
              plan_conversion(graph_, op.inputs[i], held, home_of(graph_, produced, held)));
      }
    }
  }

  void parameter(TensorId p) {
    const Value& v = graph_.value(p);
    const AtomSet allowed = synchronised_over(graph_, p);
    AtomSet data = 0;
    std::set<AtomSet> model;
    for (size_t a = 0; a < graph_.atoms(); ++a)
      if (contains(allowed, AtomIndex(a)) && v.layout[AtomIndex(a)].is_replicate())
        data |= atom_bit(AtomIndex(a));
    for (const Use& use : v.uses) {
      AtomSet split = 0;
      for (size_t a = 0; a < graph_.atoms(); ++a)
        if (!contains(allowed, AtomIndex(a)) && !graph_.per_rank[a] &&
            v.layout[AtomIndex(a)].is_replicate() &&
            forward_.ops[use.op.at()].modes[a].kind != Mode::Kind::redundant)
          split |= atom_bit(AtomIndex(a));
      model.insert(split);
    }
    if (data && graph_.sync.kind != SyncKind::none) {
      const AtomSet same = data & copies(graph_);
      if (same) add(family_over(graph_, same, v.expert));
      add(family_over(graph_, data & ~same, v.expert));
    }
    for (const AtomSet split : model)
      if (split) add(family_over(graph_, split, v.expert));
    if (const auto tied = family_of_tied(graph_, p)) add(*tied);
  }

  const Graph& graph_;
  const Forward& forward_;
  std::vector<Family> families_;
  std::set<std::string> names_;
};

}  // namespace

Family family_over(const Graph& graph, AtomSet atoms, bool expert) {
  return family_of(graph.mesh, atoms, expert);
}

namespace {

// Pipeline coordinates whose stages use a parameter.
std::vector<int64_t> holders(const Graph& graph, TensorId parameter, int64_t p) {
  std::set<int64_t> coordinates;
  for (const Use& use : graph.value(parameter).uses) coordinates.insert(graph.op(use.op).stage % p);
  return {coordinates.begin(), coordinates.end()};
}

// One group per set of holders, numbered in the order of the trained parameters.
std::string tied_name(const Graph& graph, const std::vector<int64_t>& members, int64_t p) {
  std::vector<std::vector<int64_t>> seen;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    if (!value.parameter || !value.requires_grad) continue;
    const auto other = holders(graph, TensorId(v), p);
    if (other == members) break;
    if (other.size() > 1 && std::find(seen.begin(), seen.end(), other) == seen.end())
      seen.push_back(other);
  }
  return seen.empty() ? "embd" : "embd" + std::to_string(seen.size());
}

}  // namespace

std::optional<Family> family_of_tied(const Graph& graph, TensorId parameter) {
  const auto atom = graph.mesh.pipeline_atom();
  if (!atom) return std::nullopt;
  const int64_t p = graph.mesh.atom(*atom).size;
  const std::vector<int64_t> members = holders(graph, parameter, p);
  if (members.size() < 2) return std::nullopt;
  Family family = graph.mesh.family_of(atom_bit(*atom));
  family.name = tied_name(graph, members, p);
  if (members.size() < static_cast<size_t>(p)) family.members = members;
  return family;
}

AtomSet synchronised_over(const Graph& graph, TensorId parameter) {
  if (graph.value(parameter).expert) return graph.mesh.expert_data_atoms();
  if (graph.sync.axes.empty()) return graph.data_atoms;
  AtomSet atoms = 0;
  for (const std::string& name : graph.sync.axes)
    if (const Axis* axis = graph.mesh.find(name)) atoms |= axis->atoms;
  return atoms;
}

std::vector<Family> families_in_use(const Graph& graph, const Forward& forward) {
  return Collector(graph, forward).collect();
}

Groups::Groups(World& world, const Graph& graph, const Forward& forward) {
  for (const Family& family : families_in_use(graph, forward)) {
    const auto groups = graph.mesh.groups(family);
    for (size_t i = 0; i < groups.size(); ++i)
      if (auto mine = world.create_group(family.name + std::to_string(i), groups[i]))
        mine_[family.name] = std::move(mine);
  }
}

Communicator& Groups::of(const Family& family) const {
  const auto it = mine_.find(family.name);
  if (it == mine_.end()) throw Fault("this rank is in no group of " + family.name);
  return *it->second;
}

}  // namespace s2t
