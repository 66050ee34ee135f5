#include "analyzer/forward/rows.h"

#include <fmt/format.h>

#include <set>

#include "analyzer/base/text.h"
#include "analyzer/mesh/family.h"

namespace s2t {
namespace {

class RowsCheck {
 public:
  RowsCheck(const Graph& graph, const Forward& forward, TensorId value, const std::string& pointer,
            Diagnostics& diagnostics)
      : graph_(graph),
        forward_(forward),
        value_(graph.value(value)),
        experts_(forward.routings[*value_.routing].atoms),
        tokens_(forward.routing_tokens[*value_.routing]),
        pointer_(pointer),
        diagnostics_(diagnostics) {}

  // False where it complained.
  bool layout(const Layout& layout) const {
    const AtomSet other = layout.sharding(1) & ~tokens_;
    if (graph_.mesh.size(other) == 1) return true;
    const std::string axis = name(other);
    add(fmt::format("the rows of {} are split over {}, over which no tokens were when they were "
                    "routed",
                    quoted(value_.name), quoted(axis)),
        tokens_ ? fmt::format("rows split over {} only", quoted(name(tokens_)))
                : std::string("rows that are not split"),
        fmt::format("A rank holds the rows that were routed to it, not a share: take dim 1 off "
                    "{}, or shard the tokens over it before their dispatch.",
                    quoted(axis)));
    return false;
  }

  bool step(const Step& s) const {
    if (!layout(s.before) || !layout(s.after)) return false;
    if (s.collective != Collective::all_to_all)
      return in_order(s) && (!enters_or_leaves_rows(s) || alike(s));
    const AtomSet gathered = tokens_ & ~experts_ & ~s.before.sharding(1);
    const bool of_experts = s.atoms == experts_ && s.from_dim < 2 && s.to_dim < 2;
    if (of_experts && graph_.mesh.size(gathered) == 1) return true;
    const AtomSet other = of_experts ? gathered : s.atoms;
    const std::string how = of_experts ? "while they are gathered" : "by an all-to-all";
    const bool gather = !of_experts || cuts_columns(s.before, other);
    add(fmt::format("the rows of {} go from {} to {} {} over {}", quoted(value_.name),
                    to_string(s.before, graph_.mesh), to_string(s.after, graph_.mesh), how,
                    quoted(name(other))),
        experts_ ? fmt::format("an all-to-all of rows for experts, over {}", quoted(name(experts_)))
                 : std::string("no all-to-all"),
        fmt::format("Put a redistribute op with layout {{\"{}\": \"{}\"}} before it.", name(other),
                    gather ? "R" : "S(1)"));
    return false;
  }

 private:
  bool enters_or_leaves_rows(const Step& s) const {
    const auto changed = [&](int dim) { return s.before.sharding(dim) ^ s.after.sharding(dim); };
    return ((changed(0) | changed(1)) & experts_) != 0;
  }

  // Rows in the order of tokens are blocks of the routing's axis within those of slower ones.
  bool in_order(const Step& s) const {
    const AtomSet changed = s.before.sharding(1) ^ s.after.sharding(1);
    const AtomSet kept = s.before.sharding(1) & s.after.sharding(1) & experts_;
    const AtomSet lowest = changed & (~changed + 1);
    if (graph_.mesh.size(changed) == 1 || kept < lowest * 2) return true;
    add(fmt::format("the rows of {} go from {} to {}", quoted(value_.name),
                    to_string(s.before, graph_.mesh), to_string(s.after, graph_.mesh)),
        fmt::format("rows that stay blocks of {} within {}", quoted(name(experts_)),
                    quoted(name(changed))),
        fmt::format("Exchange the rows over {} first.", quoted(name(experts_))));
    return false;
  }

  // Where each rank routes tokens of its own, ranks hold differently many rows, packed by expert or
  // in the order of tokens, and the exchange alone brings one to the other. Where all route the same
  // tokens (gathered before), a block of experts is cut out of the rows of all.
  bool alike(const Step& s) const {
    for (const Op& op : graph_.ops) {
      const bool dispatch = op.is("moe_dispatch") || op.is("moe_probs");
      if (!dispatch || graph_.value(op.outputs[0]).routing != value_.routing) continue;
      if ((forward_.layouts[op.outputs[0].at()].sharding(1) & experts_) == 0) continue;
      add(fmt::format("the rows of {} go from {} to {}", quoted(value_.name),
                      to_string(s.before, graph_.mesh), to_string(s.after, graph_.mesh)),
          fmt::format("an all-to-all of rows for experts, over {}", quoted(name(experts_))),
          fmt::format("Leave dim 0 or dim 1 sharded over {} all the way.", quoted(name(experts_))));
      return false;
    }
    return true;
  }

  bool cuts_columns(const Layout& layout, AtomSet atoms) const {
    for (size_t i = 0; i < layout.size(); ++i)
      if (contains(atoms, AtomIndex(i)) && layout[AtomIndex(i)].is_shard()) return true;
    return false;
  }

  std::string name(AtomSet atoms) const {
    return family_of(graph_.mesh, atoms, atoms == experts_).name;
  }

  void add(const std::string& found, const std::string& expected, const std::string& advice) const {
    diagnostics_.add({pointer_, found, expected, advice, "routed-rows"});
  }

  const Graph& graph_;
  const Forward& forward_;
  const Value& value_;
  const AtomSet experts_, tokens_;
  const std::string& pointer_;
  Diagnostics& diagnostics_;
};

}  // namespace

void check_rows(const Graph& graph, const Forward& forward, TensorId value,
                const std::vector<Step>& steps, const std::string& pointer,
                Diagnostics& diagnostics) {
  if (!graph.value(value).routing) return;
  const RowsCheck check(graph, forward, value, pointer, diagnostics);
  for (const Step& s : steps)
    if (!check.step(s)) return;
}

void check_rows(const Graph& graph, const Forward& forward, Diagnostics& diagnostics) {
  std::set<size_t> said;  // routings: what is made of wrong rows is wrong as well
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    if (!value.routing || said.count(*value.routing)) continue;
    const RowsCheck check(graph, forward, TensorId(v), value.pointer, diagnostics);
    if (!check.layout(forward.layouts[v])) said.insert(*value.routing);
  }
  if (diagnostics.any()) return;  // conversions only repeat it
  for (const Conversion& c : forward.conversions) {
    const auto& routing = graph.value(c.value).routing;
    const size_t before = diagnostics.reported();
    if (!routing || said.count(*routing)) continue;
    check_rows(graph, forward, c.value, c.steps, graph.op(c.consumer).pointer, diagnostics);
    if (diagnostics.reported() != before) said.insert(*routing);
  }
}

}  // namespace s2t
