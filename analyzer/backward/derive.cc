#include "analyzer/backward/derive.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/base/text.h"
#include "analyzer/forward/rows.h"
#include "analyzer/graph/passes.h"

namespace s2t {
namespace {

class Deriver {
 public:
  Deriver(const Graph& graph, const Forward& forward, const Needs& needs)
      : graph_(graph), forward_(forward), needs_(needs), diagnostics_(graph.file) {}

  Backward derive() {
    pending_.resize(graph_.values.size());
    out_.leaf_gradients.resize(graph_.values.size());
    if (graph_.loss.valid()) seed();
    for (size_t o = graph_.ops.size(); o-- > 0;) visit(OpId(o));
    diagnostics_.throw_if_any();
    return std::move(out_);
  }

 private:
  // The gradient of the loss is 1 on every rank, in the loss's own cotangent layout.
  void seed() {
    const Value& loss = graph_.value(graph_.loss);
    if (!needs_.needed[graph_.loss.at()] || loss.leaf()) return;
    pending_[graph_.loss.at()].push_back({result_cotangent(loss.producer, loss.result, {}), {}});
  }

  void visit(OpId id) {
    const Op& op = graph_.op(id);
    bool runs = false;
    Layout arrived;
    for (size_t r = 0; r < op.outputs.size(); ++r) {
      if (pending_[op.outputs[r].at()].empty()) continue;
      arrived = bring_home(op.outputs[r], id, r);
      runs = true;
    }
    if (runs) {
      regather(id);
      out_.steps.push_back({BackwardStep::Kind::op, id, {}, {}, {}, {}, -1, {}, false});
      for (size_t i = 0; i < op.inputs.size(); ++i) contribute(id, i, arrived);
    }
    for (const int conversion : forward_.ops[id.at()].conversions)
      if (conversion >= 0) finish_converted_parameter(conversion, id);
    for (const TensorId t : op.inputs)
      if (graph_.value(t).leaf() && !graph_.value(t).parameter && is_last_source(t, id))
        finish_input(t, id);
  }

  // Converts what has accumulated for a value to its producer's cotangent port.
  Layout bring_home(TensorId value, OpId producer, size_t result) {
    std::vector<Contribution>& list = pending_[value.at()];
    const Layout target = result_cotangent(producer, result, list);
    for (const Contribution& c : list) convert(value, c, target, producer);
    list.clear();
    return target;
  }

  void convert(TensorId value, const Contribution& c, const Layout& target, OpId before) {
    BackwardStep step;
    step.kind = BackwardStep::Kind::gradient;
    step.op = before;
    step.value = value;
    step.from = c.layout;
    step.to = target;
    step.steps = plan_conversion(graph_, value, c.layout, target);
    check_rows(graph_, forward_, value, step.steps, graph_.op(before).pointer, diagnostics_);
    step.sources = c.sources;
    step.fused = !needs_.needed[value.at()];
    if (!step.steps.empty()) out_.steps.push_back(std::move(step));
  }

  // A pin whose result is R passes the gradient (R or Partial) through as it comes; so does an op
  // that takes its rows of gathered tokens.
  Layout result_cotangent(OpId producer, size_t result,
                          const std::vector<Contribution>& arrived) const {
    const Op& op = graph_.op(producer);
    const OpPlan& plan = forward_.ops[producer.at()];
    Layout target(graph_.mesh);
    for (size_t i = 0; i < graph_.atoms(); ++i) {
      const AtomIndex a(i);
      const Placement port = plan.result_ports[result][a];
      const bool redundant = plan.modes[i].kind == Mode::Kind::redundant;
      target[a] = cotangent(port, redundant, graph_.per_rank[i]);
      if (!passes_gradient(op) || !redundant || !port.is_replicate() || arrived.empty()) continue;
      const Placement first = arrived.front().layout[a];
      const bool agree = std::all_of(arrived.begin(), arrived.end(),
                                     [&](const Contribution& c) { return c.layout[a] == first; });
      if (agree && !first.is_shard()) target[a] = first;
      if (adds_gradients(op) && op.target[i]) target[a] = Placement::P();
    }
    return target;
  }

  // `stored` values: repeats the forward conversion, from its first gather on, before the first
  // needed gradient that reads it.
  void regather(OpId id) {
    const Op& op = graph_.op(id);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!wants_gradient(op, i)) continue;
      for (const size_t saved : saved_for(*op.def, *op.notation, i)) {
        const int index = forward_.ops[id.at()].conversions[saved];
        if (index < 0 || !regathered_.insert(index).second) continue;
        repeat(index, id);
      }
    }
  }

  void repeat(int index, OpId id) {
    const Conversion& c = forward_.conversions[static_cast<size_t>(index)];
    const Value& v = graph_.value(c.value);
    if (v.residual != Residual::stored || v.parameter) return;
    BackwardStep step;
    step.kind = BackwardStep::Kind::regather;
    step.op = id;
    step.value = c.value;
    step.from = c.from;
    step.to = c.to;
    step.conversion = index;
    const auto gather = std::find_if(c.steps.begin(), c.steps.end(), [](const Step& s) {
      return s.collective == Collective::all_gather;
    });
    step.steps.assign(gather, c.steps.end());
    if (!step.steps.empty()) out_.steps.push_back(std::move(step));
  }

  bool wants_gradient(const Op& op, size_t operand) const {
    return needs_.needed[op.inputs[operand].at()] && !stops(*op.def, *op.notation, operand);
  }

  // A fused column linear computes and reduces its input gradient whenever it runs.
  bool forced(const Op& op, size_t operand) const {
    return graph_.switches.fused_column_linear && op.is("linear") && operand == 0 &&
           needs_.needed[op.inputs[1].at()] && is_differentiable(graph_.value(op.inputs[0]).dtype);
  }

  void contribute(OpId id, size_t operand, const Layout& arrived) {
    const Op& op = graph_.op(id);
    const TensorId value = op.inputs[operand];
    const bool wanted = wants_gradient(op, operand) || is_message(op);
    if (!wanted && !forced(op, operand)) return;
    const int conversion = forward_.ops[id.at()].conversions[operand];
    Contribution c{operand_cotangent(id, operand, arrived), {id}, conversion};
    if (!wanted) {
      convert(value, c, home_of(value, c.layout), id);
      return;
    }
    if (!needs_.needed[value.at()]) return;  // a message that the receiver ignores
    if (graph_.value(value).parameter && conversion >= 0) return add(converted_[conversion], c);
    std::vector<Contribution>& list =
        graph_.value(value).leaf() ? out_.leaf_gradients[value.at()] : pending_[value.at()];
    add(list, std::move(c));
  }

  // Does the backward of `use` contribute to the gradient of what it reads?
  bool contributes(const Use& use) const {
    const Op& op = graph_.op(use.op);
    return (wants_gradient(op, use.operand) || is_message(op)) &&
           std::any_of(op.outputs.begin(), op.outputs.end(),
                       [&](TensorId out) { return needs_.needed[out.at()]; });
  }

  // Of the uses on its stage; a leaf that several stages read has a gradient on each.
  bool is_last_source(TensorId value, OpId id) const {
    for (const Use& use : graph_.value(value).uses)
      if (stage_of(use.op) == stage_of(id) && contributes(use)) return use.op == id;
    return false;
  }

  // Of the uses that read the value through one conversion.
  bool is_last_source(const Conversion& conversion, int index, OpId id) const {
    for (const Use& use : graph_.value(conversion.value).uses)
      if (forward_.ops[use.op.at()].conversions[use.operand] == index && contributes(use))
        return use.op == id;
    return false;
  }

  int stage_of(OpId id) const { return graph_.op(id).stage; }
  // A gradient that was sent back adds up where the value was made.
  int stage_of(const Contribution& c) const {
    const Op& op = graph_.op(c.sources.front());
    const bool sent = is_message(op) && !graph_.value(op.inputs[0]).leaf();
    return sent ? stage_of(graph_.value(op.inputs[0]).producer) : op.stage;
  }

  void add(std::vector<Contribution>& list, Contribution c) const {
    for (Contribution& other : list)
      if (graph_.switches.accumulate_first && other.layout == c.layout &&
          other.conversion == c.conversion && stage_of(other) == stage_of(c)) {
        other.sources.insert(other.sources.end(), c.sources.begin(), c.sources.end());
        return;
      }
    list.push_back(std::move(c));
  }

  static bool is_message(const Op& op) { return op.is("transfer"); }

  Layout operand_cotangent(OpId id, size_t operand, const Layout& arrived) const {
    const Op& op = graph_.op(id);
    const OpPlan& plan = forward_.ops[id.at()];
    if (op.redistributes()) return arrived;
    Layout layout(graph_.mesh);
    for (size_t i = 0; i < graph_.atoms(); ++i)
      layout[AtomIndex(i)] =
          cotangent(plan.operand_ports[operand][AtomIndex(i)],
                    plan.modes[i].kind == Mode::Kind::redundant, graph_.per_rank[i]);
    for (size_t i = 0; i < graph_.atoms(); ++i)
      if (passes_gradient(op) && plan.modes[i].kind == Mode::Kind::redundant)
        layout[AtomIndex(i)] = arrived[AtomIndex(i)];
    return layout;
  }

  // Where the gradient of a value has to go: the producer's port, or for an input its own layout on
  // model axes that follow the global convention.
  Layout home_of(TensorId value, const Layout& arrived) const {
    const Value& v = graph_.value(value);
    if (!v.leaf()) return result_cotangent(v.producer, v.result, {});
    Layout home = arrived;
    for (size_t i = 0; i < graph_.atoms(); ++i)
      if (!graph_.per_rank[i] && !contains(graph_.data_atoms, AtomIndex(i)))
        home[AtomIndex(i)] = v.layout[AtomIndex(i)];
    // A forward conversion has a dual even where nothing else is inserted: of a slice, its block
    // among zeros.
    for (size_t i = 0; i < graph_.atoms(); ++i) {
      const AtomIndex a(i);
      if (v.layout[a].is_shard())
        home[a] = v.layout[a];
      else if (home[a].is_shard())
        home[a] = Placement::P();
    }
    return home;
  }

  // The gradient of an input is complete on a stage once the backward has passed the first of its
  // uses there that contribute, `id`.
  void finish_input(TensorId value, OpId id) {
    std::vector<Contribution> home;
    for (const Contribution& c : out_.leaf_gradients[value.at()]) {
      if (stage_of(c) != stage_of(id)) {
        home.push_back(c);
        continue;
      }
      const Layout target = home_of(value, c.layout);
      convert(value, c, target, id);
      add(home, {target, c.sources});
    }
    for (const Contribution& c : home)
      if (stage_of(c) == stage_of(id)) remark_partial(value, c.layout);
    out_.leaf_gradients[value.at()] = std::move(home);
  }

  // A parameter that was converted for use (a position table sliced along the sequence): the dual
  // of that conversion runs behind the last op to contribute through it. Axes on which nothing was
  // converted are the synchronisation's business.
  void finish_converted_parameter(int index, OpId id) {
    const auto it = converted_.find(index);
    const Conversion& conversion = forward_.conversions[static_cast<size_t>(index)];
    if (it == converted_.end() || !is_last_source(conversion, index, id)) return;
    for (const Contribution& c : it->second) {
      Layout home = c.layout;
      for (size_t i = 0; i < graph_.atoms(); ++i) {
        const AtomIndex a(i);
        if (conversion.from[a] == conversion.to[a]) continue;
        home[a] = cotangent(conversion.from[a], true, graph_.per_rank[i]);
      }
      convert(conversion.value, c, home, id);
      add(out_.leaf_gradients[conversion.value.at()], {home, c.sources});
    }
    converted_.erase(it);
  }

  void remark_partial(TensorId value, const Layout& layout) {
    const AtomSet partial = layout.partial() & ~graph_.data_atoms;
    if (!partial) return;
    const std::string axis = graph_.mesh.family_of(partial).name;
    out_.remarks.push_back(
        {"partial-gradient",
         fmt::format(
             "the gradient of {} stays a partial sum over {}: under per_rank nothing reduces "
             "it, so each rank holds one of {} terms",
             quoted(graph_.value(value).name), axis, graph_.mesh.size(partial))});
  }

  const Graph& graph_;
  const Forward& forward_;
  const Needs& needs_;
  Diagnostics diagnostics_;
  Backward out_;
  std::vector<std::vector<Contribution>> pending_;
  std::set<int> regathered_;
  std::map<int, std::vector<Contribution>> converted_;  // of parameters, by conversion
};

}  // namespace

Backward derive_backward(const Graph& graph, const Forward& forward, const Needs& needs) {
  return Deriver(graph, forward, needs).derive();
}

}  // namespace s2t
