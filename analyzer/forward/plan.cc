#include "analyzer/forward/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/base/text.h"
#include "analyzer/forward/modes.h"
#include "analyzer/forward/rows.h"
#include "analyzer/graph/passes.h"
#include "analyzer/graph/placements.h"
#include "analyzer/mesh/family.h"

namespace s2t {
namespace {

class ForwardPlanner {
 public:
  explicit ForwardPlanner(const Graph& graph) : graph_(graph), diagnostics_(graph.file) {}

  Forward plan() {
    out_.layouts.assign(graph_.values.size(), Layout(graph_.mesh));
    out_.routings = graph_.routings;
    out_.routing_tokens.assign(graph_.routings.size(), 0);
    for (size_t v = 0; v < graph_.values.size(); ++v)
      if (graph_.values[v].leaf()) out_.layouts[v] = graph_.values[v].layout;
    for (size_t o = 0; o < graph_.ops.size(); ++o) plan_op(OpId(o));
    check_rows(graph_, out_, diagnostics_);
    diagnostics_.throw_if_any();
    return std::move(out_);
  }

 private:
  void plan_op(OpId id) {
    const Op& op = graph_.op(id);
    std::vector<Layout> layouts;
    for (const TensorId t : op.inputs) layouts.push_back(out_.layouts[t.at()]);
    OpPlan plan;
    choose_modes(graph_, op, layouts, plan, diagnostics_);
    check_even(op, plan);
    check_ring(op, plan);
    remark_bias(op, layouts[0], plan);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      plan.conversions.push_back(convert(id, op.inputs[i], i, plan.operand_ports[i]));
    }
    for (size_t r = 0; r < op.outputs.size(); ++r) {
      out_.layouts[op.outputs[r].at()] = plan.result_ports[r];
      const Value& v = graph_.value(op.outputs[r]);
      check_divides(v.shape, plan.result_ports[r], v.uneven || v.routing.has_value(), graph_.mesh,
                    v.pointer, nullptr, diagnostics_);
      check_routed(v, plan.result_ports[r]);
    }
    if (op.is("moe_dispatch")) resolve_routing(op, plan);
    out_.ops.push_back(std::move(plan));
  }

  int convert(OpId consumer, TensorId value, size_t operand, const Layout& to) {
    const Layout& from = out_.layouts[value.at()];
    if (from == to) return -1;
    // A leaf lives on every stage that reads it, so each converts its own.
    const int stage = graph_.value(value).leaf() ? graph_.op(consumer).stage : 0;
    const auto key = std::tuple(value, to, stage);
    if (const auto it = shared_.find(key); graph_.switches.share_conversions && it != shared_.end())
      return it->second;
    Conversion c{value, from, to, {}, consumer};
    const Value& v = graph_.value(value);
    const Op& op = graph_.op(consumer);
    if (refuse_other_combiner(op, v, from, to)) return -1;
    check_divides(v.shape, to, v.uneven || v.routing.has_value(), graph_.mesh, op.pointer, nullptr,
                  diagnostics_);
    c.steps = plan_conversion(graph_, value, from, to);
    check_even(op, v, c.steps);
    if (graph_.switches.explicit_redistribution && !op.redistributes() && !op.is("transfer"))
      refuse_implicit(op, operand, c);
    out_.conversions.push_back(std::move(c));
    const int index = static_cast<int>(out_.conversions.size()) - 1;
    shared_.emplace(key, index);
    return index;
  }

  // Of a dim (b s), ceil-sized blocks of b or of s are no blocks of the dim.
  void check_even(const Op& op, const OpPlan& plan) {
    const auto uneven = [&](TensorId t) { return graph_.value(t).uneven; };
    if (std::none_of(op.inputs.begin(), op.inputs.end(), uneven)) return;
    for (size_t f = 0; f < op.rule->factors.size(); ++f) {
      const Factor& factor = op.rule->factors[f];
      int64_t ways = 1;
      for (size_t a = 0; a < plan.modes.size(); ++a)
        if (plan.modes[a].cuts(FactorIndex(f))) ways *= graph_.mesh.atoms()[a].size;
      const bool blocks = !shares_a_dim(*op.rule, FactorIndex(f)) && ring_atoms(plan) == 0;
      if (factor.size % ways == 0 || blocks) continue;
      diagnostics_.add(
          {op.pointer,
           fmt::format("{} ways to cut factor {} (size {}), which {}", ways, factor.name,
                       factor.size, ring_atoms(plan) ? "goes round in a ring" : "shares a dim"),
           fmt::format("a multiple of {}", ways),
           "Uneven parts work along dims of one factor only; pad the dim.", "indivisible"});
    }
  }

  // Behind a causal mask a rank's queries see the keys of the ranks before it, and part of its own.
  void check_ring(const Op& op, const OpPlan& plan) {
    if (!ring_atoms(plan) || !flag_or(op.attributes, "causal", false)) return;
    const auto size = [&](const char* f) { return op.rule->factors[op.rule->find(f)->at()].size; };
    if (size("s") == size("t")) return;
    diagnostics_.add({op.pointer + "/modes",
                      fmt::format("a causal ring of {} queries and {} keys", size("s"), size("t")),
                      "as many keys as queries", "", "bad-mode"});
  }

  static bool shares_a_dim(const BoundRule& rule, FactorIndex f) {
    for (const auto* tensors : {&rule.operands, &rule.results})
      for (const auto& tensor : *tensors)
        if (const auto d = dim_of(tensor, f); d && tensor[static_cast<size_t>(*d)].size() > 1)
          return true;
    return false;
  }

  // Ceil-sized blocks of an axis are none of a part of that axis.
  void check_even(const Op& op, const Value& v, const std::vector<Step>& steps) {
    for (const Step& s : steps)
      for (size_t d = 0; d < v.shape.size() && v.uneven; ++d) {
        const AtomSet before = s.before.sharding(static_cast<int>(d)),
                      after = s.after.sharding(static_cast<int>(d));
        const int64_t ways = graph_.mesh.size(before | after);
        if (!before || !after || before == after || v.shape[d] % ways == 0) continue;
        diagnostics_.add(
            {op.pointer,
             fmt::format("dim {} of {} (size {}) is cut over {}, of which only a part "
                         "changes",
                         d, quoted(v.name), v.shape[d], graph_.mesh.family_of(before | after).name),
             fmt::format("a multiple of {}", ways), "Pad the dim.", "indivisible"});
        return;
      }
  }

  // Terms of a maximum are no terms of a sum.
  bool refuse_other_combiner(const Op& op, const Value& v, const Layout& from, const Layout& to) {
    for (size_t i = 0; i < from.size(); ++i) {
      const AtomIndex a(i);
      if (!from[a].is_partial() || !to[a].is_partial() || from[a] == to[a]) continue;
      diagnostics_.add({op.pointer + " (" + std::string(op.def->name) + ")",
                        fmt::format("input {} is {} but is wanted as {} over {}", quoted(v.name),
                                    to_string(from[a]), to_string(to[a]),
                                    quoted(graph_.mesh.family_of(atom_bit(a)).name)),
                        "one kind of Partial", "Reduce it first: ask for \"R\" or \"S(dim)\".",
                        "mixed-partial"});
      return true;
    }
    return false;
  }

  void refuse_implicit(const Op& op, size_t operand, const Conversion& c) {
    for (const Step& step : c.steps) {
      if (!step.collective) continue;
      const std::string axis = graph_.mesh.family_of(step.atoms).name;
      const std::string value = graph_.value(c.value).name;
      const bool partial = (c.from.partial() & step.atoms) != 0;
      diagnostics_.add(
          {op.pointer + " (" + std::string(op.def->name) + ")",
           partial
               ? fmt::format("input {} is Partial over {}, {} is not linear in it, and "
                             "redistribution is explicit here",
                             quoted(value), quoted(axis), op.def->name)
               : fmt::format("input {} is {} but is wanted as {}, and redistribution is explicit "
                             "here",
                             quoted(value), to_string(c.from, graph_.mesh),
                             to_string(c.to, graph_.mesh)),
           partial ? "a reduced value" : "the layout its op wants",
           fmt::format("Put a redistribute op before input {}.", operand),
           partial ? "partial-nonlinear" : "implicit-redistribution"});
    }
  }

  void remark_bias(const Op& op, const Layout& x, const OpPlan& plan) {
    const AtomSet atoms = x.partial() & ~plan.operand_ports[0].partial();
    if (!op.is("bias_add") || !atoms) return;
    for (const Remark& r : out_.remarks)
      if (r.slug == "bias-after-reduction") return;  // once says it
    out_.remarks.push_back(
        {"bias-after-reduction",
         fmt::format("{} adds {} after {} is reduced over {}: added to each partial term it would "
                     "be counted {} times",
                     op.name, quoted(graph_.value(op.inputs[1]).name),
                     quoted(graph_.value(op.inputs[0]).name), graph_.mesh.family_of(atoms).name,
                     graph_.mesh.size(atoms))});
  }

  // Rows travel between the ranks that hold different experts, and their counts are of these.
  void check_routed(const Value& v, const Layout& layout) {
    if (!v.routing) return;
    const AtomSet experts = layout.sharding(0);
    const Routing& routing = out_.routings[*v.routing];
    if (!experts || experts == routing.atoms) return;
    diagnostics_.add(
        {graph_.routing_pointers[*v.routing] + "/axis",
         fmt::format(
             "rows are routed over {}, but the experts of {} are split over {}",
             routing.atoms ? graph_.mesh.family_of(routing.atoms).name : std::string("no axis"),
             quoted(v.name), graph_.mesh.family_of(experts).name),
         fmt::format("the axis of the experts, {}", quoted(graph_.mesh.family_of(experts).name)),
         "", "routing-axis"});
  }

  // The atoms over which the tokens of a dispatch are sharded, or were before they were gathered.
  AtomSet tokens_over(const Op& op, const OpPlan& plan) const {
    const Value& x = graph_.value(op.inputs[0]);
    if (op.redistributes() || !passes_gradient(op) || x.leaf())
      return plan.result_ports[0].sharding(1);
    const Op& gather = graph_.op(x.producer);
    return out_.layouts[(gather.redistributes() ? gather.inputs : op.inputs)[0].at()].sharding(0);
  }

  void resolve_routing(const Op& op, const OpPlan& plan) {
    const Value& buffer = graph_.value(op.outputs[0]);
    if (!buffer.routing) return;
    const size_t r = *buffer.routing;
    out_.routing_tokens[r] = tokens_over(op, plan);
    const int64_t blocks = graph_.mesh.size(out_.routing_tokens[r]);
    if (buffer.shape[1] % blocks != 0)
      diagnostics_.add({op.pointer,
                        fmt::format("{} ways to cut the {} tokens of {}, which is routed", blocks,
                                    buffer.shape[1], quoted(graph_.value(op.inputs[0]).name)),
                        fmt::format("a multiple of {}", blocks),
                        "Each source routes equally many tokens; pad the dim.", "indivisible"});
    const auto tokens = static_cast<Count>(buffer.shape[1] / blocks);
    const auto [first, fresh] = tokens_routed_.emplace(r, std::pair(op.name, tokens));
    if (!fresh && first->second.second != tokens) {
      diagnostics_.add({op.pointer + "/routing",
                        fmt::format("{} routes {} tokens by {}, as {} does with {}",
                                    quoted(op.name), tokens, quoted(out_.routings[r].name),
                                    quoted(first->second.first), first->second.second),
                        "dispatches of equally many tokens",
                        "Give each its own row of \"routing\".", "routing-rows"});
      return;
    }
    const auto error = route(out_.routings[r], graph_.routing_requests[r], tokens);
    if (error)
      diagnostics_.add({graph_.routing_pointers[r] + error->where, error->why, "",
                        fmt::format("Each source rank holds {} tokens.", tokens), "routing-rows"});
    else if (out_.routings[r].dropped > 0)
      out_.remarks.push_back(
          {"tokens-dropped", fmt::format("routing {}: {} rows are over capacity and "
                                         "dropped",
                                         quoted(out_.routings[r].name), out_.routings[r].dropped)});
    remark_idle(out_.routings[r]);
  }

  // Nothing is listed of a call in which a rank moves no byte.
  void remark_idle(const Routing& routing) {
    std::vector<std::string> idle;
    for (int64_t rank = 0; rank < static_cast<int64_t>(routing.rows.size()); ++rank)
      if (routing.rows_at_expert(rank) == 0) idle.push_back(std::to_string(rank));
    if (idle.empty()) return;
    out_.remarks.push_back(
        {"no-rows",
         fmt::format("routing {}: no rows go to the experts of {} {} over {}; calls in "
                     "which they move nothing launch no kernel and are not listed",
                     quoted(routing.name), idle.size() == 1 ? "rank" : "ranks", join(idle, ", "),
                     family_of(graph_.mesh, routing.atoms, true).name)});
  }

  const Graph& graph_;
  Diagnostics diagnostics_;
  Forward out_;
  std::map<std::tuple<TensorId, Layout, int>, int> shared_;        // per stage
  std::map<size_t, std::pair<std::string, Count>> tokens_routed_;  // by routing: who, how many
};

}  // namespace

Forward plan_forward(const Graph& graph) {
  return ForwardPlanner(graph).plan();
}

std::vector<Step> plan_conversion(const Graph& graph, TensorId value, const Layout& from,
                                  const Layout& to) {
  const Value& v = graph.value(value);
  return plan_redistribution(from, to, graph.mesh, v.parameter ? graph.data_atoms : 0,
                             v.routing ? Blocks::any_order : Blocks::in_order);
}

AtomSet ring_atoms(const OpPlan& plan) {
  AtomSet atoms = 0;
  for (size_t a = 0; a < plan.modes.size(); ++a)
    if (plan.modes[a].kind == Mode::Kind::ring) atoms |= atom_bit(AtomIndex(a));
  return atoms;
}

std::vector<size_t> passing_operands(const Op& op, const OpPlan& plan) {
  std::vector<size_t> list;
  for (const Mode& mode : plan.modes) {
    if (mode.kind != Mode::Kind::ring) continue;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (dim_of(op.rule->operands[i], mode.passing)) list.push_back(i);
    break;
  }
  return list;
}

Shape local_shape_of(const Graph& graph, TensorId value, const Layout& layout) {
  return local_shape(graph.value(value).shape, layout, graph.mesh);
}

Count ragged_rows(const Graph& graph, const Forward& forward, TensorId value, const Layout& layout,
                  int64_t c) {
  const size_t r = graph.value(value).routing.value();
  const Routing& routing = forward.routings[r];
  const bool by_expert = (layout.sharding(0) & routing.atoms) == routing.atoms && routing.atoms;
  const bool by_token = (layout.sharding(1) & routing.atoms) == routing.atoms && routing.atoms;
  Count rows = 0;
  if (by_expert)
    rows = routing.rows_at_expert(c);
  else if (by_token || routing.ranks == 1)
    rows = routing.rows_at_source(routing.ranks == 1 ? 0 : c);
  else
    for (int64_t source = 0; source < routing.ranks; ++source)
      rows += routing.rows_at_source(source);
  // Tokens gathered over other axes (expert tensor parallelism) multiply the rows.
  const AtomSet gathered = forward.routing_tokens[r] & ~routing.atoms & ~layout.sharding(1);
  return checked_mul(rows, static_cast<Count>(graph.mesh.size(gathered)));
}

namespace {

std::optional<AtomIndex> first_of(AtomSet atoms) {
  for (size_t i = 0; i < kMaxAtoms; ++i)
    if (contains(atoms, AtomIndex(i))) return AtomIndex(i);
  return std::nullopt;
}

}  // namespace

std::string describe_mode(const Graph& graph, const Forward& forward, OpId id, AtomSet atoms) {
  const auto atom = first_of(atoms);
  if (!id.valid() || !atom) return "";
  const Op& op = graph.op(id);
  const std::string mode = op.redistributes()
                               ? "redistribute"
                               : to_string(forward.ops[id.at()].modes[atom->at()], *op.rule);
  return op.name + " (" + std::string(op.def->name) + "): " + mode;
}

std::string describe_vote(const Graph& graph, const Forward& forward, OpId id, AtomSet atoms) {
  const auto atom = first_of(atoms);
  if (!id.valid() || !atom) return "";
  const Op& op = graph.op(id);
  const Vote& vote = forward.ops[id.at()].votes[atom->at()];
  const std::string who = op.inputs.empty() ? "" : graph.value(op.inputs[vote.operand]).name;
  const std::string placement =
      op.inputs.empty() ? "" : to_string(forward.layouts[op.inputs[vote.operand].at()][*atom]);
  std::string text;
  switch (vote.kind) {
    case Vote::Kind::none:
      text = "nothing is sharded here: redundant";
      break;
    case Vote::Kind::pin:
      text = "the model pins the mode";
      break;
    case Vote::Kind::parameter:
      text = "parameter " + who + " is " + placement;
      break;
    case Vote::Kind::activation:
      text = "activation " + who + " is " + placement;
      break;
    case Vote::Kind::lazy:
      text = who + " is Partial and the op is linear in it (partial: lazy)";
      break;
    case Vote::Kind::target:
      text = "the model states this layout";
      break;
  }
  return vote.losers.empty() ? text : text + "; outvoted: " + vote.losers;
}

}  // namespace s2t
