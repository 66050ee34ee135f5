#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include "analyzer/base/text.h"
#include "analyzer/graph/build_op.h"
#include "analyzer/graph/composite_pins.h"
#include "analyzer/graph/graph.h"
#include "analyzer/graph/placements.h"
#include "analyzer/graph/stages.h"

namespace s2t {
namespace {

std::vector<AxisShape> shapes_of(const std::vector<AxisDecl>& decls) {
  std::vector<AxisShape> shapes;
  for (const AxisDecl& d : decls) shapes.push_back({d.name, d.size, d.kind, shapes_of(d.parts)});
  return shapes;
}

class Builder {
 public:
  explicit Builder(const Model& model) : model_(model), diagnostics_(model.file) {}

  Graph build() {
    start();
    graph_.values.reserve(model_.tensors.size() + model_.ops.size() + model_.pins.size());
    graph_.ops.reserve(model_.ops.size() + model_.pins.size());
    for (const TensorDecl& t : model_.tensors) add_leaf(t);
    for (const OpDecl& op : model_.ops) add(op);
    if (!model_.loss.empty()) find_loss();
    diagnostics_.throw_if_any();
    check_borders();
    diagnostics_.throw_if_any();
    insert_transfers(graph_);
    for (const CallDecl& call : model_.calls) add_call(call);
    return std::move(graph_);
  }

 private:
  // --- mesh, conventions, batch ------------------------------------------------------------------

  void start() {
    graph_.name = model_.name;
    graph_.file = model_.file;
    graph_.mesh = Mesh(shapes_of(model_.mesh.axes), shapes_of(model_.mesh.expert_axes));
    graph_.microbatches = model_.microbatches;
    graph_.pipeline = model_.pipeline;
    graph_.sync = model_.gradient_sync;
    graph_.group_order = model_.mesh.group_order;
    graph_.switches = model_.switches;
    graph_.loss_scale_global = model_.loss_scale_global;
    for (size_t i = 0; i < graph_.atoms(); ++i)
      if (graph_.mesh.atoms()[i].kind == AxisKind::data)
        graph_.data_atoms |= atom_bit(AtomIndex(i));
    read_conventions();
    read_batch();
    for (const RoutingDecl& r : model_.routing) add_routing(r);
    for (const PinDecl& pin : model_.pins) pins_.emplace(pin.tensor, &pin);
  }

  void read_conventions() {
    graph_.per_rank.assign(graph_.atoms(), model_.convention == Convention::per_rank);
    for (const auto& [axis, convention] : model_.axis_convention)
      for (size_t i = 0; i < graph_.atoms(); ++i)
        if (const Axis* a = graph_.mesh.find(axis); a && contains(a->atoms, AtomIndex(i)))
          graph_.per_rank[i] = convention == Convention::per_rank;
    for (size_t i = 0; i < graph_.atoms(); ++i)
      if (const AxisKind kind = graph_.mesh.atoms()[i].kind; kind != AxisKind::model)
        graph_.per_rank[i] = kind == AxisKind::data;  // stages share nothing, so nothing is summed
  }

  // The batch dim of one microbatch over the whole mesh.
  void read_batch() {
    if (!model_.batch) return;
    const BatchDecl& b = *model_.batch;
    for (const std::string& axis : b.axes)
      if (const Axis* a = graph_.mesh.find(axis)) batch_atoms_ |= a->atoms;
    const int64_t split = graph_.mesh.size(batch_atoms_);
    const int64_t m = model_.microbatches;
    const int64_t total = b.global ? *b.global : *b.local * split;
    batch_ = total / m;
    if (total % (split * m) == 0) return;
    diagnostics_.add(
        {b.global ? b.pointer + "/global" : model_.microbatches_pointer,
         b.global
             ? fmt::format("a global batch of {} does not divide into {} ranks x {} microbatches",
                           total, split, m)
             : fmt::format("{} microbatches do not divide the local batch of {}", m, *b.local),
         b.global ? fmt::format("a multiple of {}", split * m) : "a divisor of the local batch", "",
         "microbatches"});
  }

  void add_routing(const RoutingDecl& r) {
    Routing routing{r.name, 0, 1, r.experts, r.top_k, {}, 0, {}};
    if (const Axis* axis = graph_.mesh.find(r.axis)) {
      routing.atoms = axis->atoms;
      routing.ranks = axis->size;
    }
    if (routing.experts % routing.ranks != 0)
      diagnostics_.add({r.pointer + "/experts",
                        fmt::format("{} experts over {} ranks of axis {}", routing.experts,
                                    routing.ranks, quoted(r.axis)),
                        fmt::format("a multiple of {}", routing.ranks), "", "indivisible"});
    graph_.routings.push_back(routing);
    graph_.routing_requests.push_back({r.counts, r.skew, r.capacity_factor, r.pad_to_capacity,
                                       static_cast<Count>(r.least_capacity)});
    graph_.routing_pointers.push_back(r.pointer);
  }

  // --- leaves ------------------------------------------------------------------------------------

  void add_leaf(const TensorDecl& t) {
    if (produced_by_op(t.name)) {  // only notes about an intermediate
      notes_.emplace(t.name, &t);
      return;
    }
    Value v;
    v.name = t.name;
    v.dtype = t.dtype;
    v.parameter = t.parameter;
    v.requires_grad = t.requires_grad && is_differentiable(t.dtype);
    v.uneven = t.uneven;
    v.residual = t.residual.value_or(graph_.switches.residual);
    v.pointer = t.pointer;
    v.layout = Layout(graph_.mesh);
    for (const DimDecl& d : t.shape) v.shape.push_back(d.batch ? batch_ : d.size);
    place_leaf(t, v);
    if (t.requires_grad && !is_differentiable(t.dtype))
      diagnostics_.add({t.pointer + "/requires_grad",
                        "a tensor of " + std::string(info(t.dtype).name) + " cannot require grad",
                        "a floating-point dtype", "", "integer-grad"});
    check_size(v);
    names_[t.name] = add_value(std::move(v));
  }

  void place_leaf(const TensorDecl& t, Value& v) {
    for (size_t d = 0; d < t.shape.size(); ++d)
      for (size_t i = 0; t.shape[d].batch && i < graph_.atoms(); ++i)
        if (contains(batch_atoms_, AtomIndex(i)))
          v.layout[AtomIndex(i)] = Placement::S(static_cast<int>(d));
    if (!t.layout) return;
    const auto stated = read_layout(*t.layout, graph_.mesh, v.shape.size(), diagnostics_);
    for (size_t i = 0; i < stated.size(); ++i)
      if (stated[i]) place(t, v, AtomIndex(i), *stated[i]);
    for (const LayoutDecl::Entry& e : t.layout->entries)
      if (const Axis* axis = graph_.mesh.find(e.axis)) v.expert |= axis->expert;
    check_divides(v.shape, v.layout, v.uneven, graph_.mesh, t.layout->pointer, &*t.layout,
                  diagnostics_);
  }

  void place(const TensorDecl& t, Value& v, AtomIndex atom, const Placement& stated) {
    const Placement before = v.layout[atom];
    if (before.is_shard() && before != stated)
      diagnostics_.add({t.layout->pointer,
                        fmt::format("{} over {}, which splits the batch", to_string(stated),
                                    quoted(graph_.mesh.family_of(atom_bit(atom)).name)),
                        to_string(before),
                        "Dims of \"batch\" are split over the axes of \"batch\" by themselves.",
                        "batch-layout"});
    v.layout[atom] = stated;
  }

  void check_size(const Value& v) {
    try {
      checked_mul(elements(v.shape), size_of(v.dtype));
    } catch (const Overflow&) {
      diagnostics_.add({v.pointer, "the bytes of " + quoted(v.name) + " do not fit in 64 bits",
                        "a smaller shape", "", "too-many-bytes"});
    }
  }

  bool produced_by_op(const std::string& name) {
    if (produced_.empty())
      for (const OpDecl& op : model_.ops) produced_.insert(op.outputs.begin(), op.outputs.end());
    return produced_.count(name) != 0;
  }

  TensorId add_value(Value v) {
    graph_.values.push_back(std::move(v));
    return TensorId(graph_.values.size() - 1);
  }

  // --- ops ---------------------------------------------------------------------------------------

  // Everything about an op of the model that its simple ops share.
  void add(const OpDecl& decl) {
    const OpDef* def = find_op(decl.op);
    if (!def) throw Fault("unknown op passed the reader: " + decl.op);
    std::vector<TensorId> inputs;
    for (size_t i = 0; i < decl.inputs.size(); ++i) {
      const auto it = names_.find(decl.inputs[i]);
      if (it == names_.end()) return;  // its producer failed: already reported
      inputs.push_back(it->second);
    }
    const bool ok = def->steps.empty() ? add_simple(decl, *def, decl.name, inputs, decl.outputs)
                                       : add_composite(decl, *def, inputs);
    if (ok) pin_outputs(decl);
  }

  bool add_composite(const OpDecl& decl, const OpDef& def, const std::vector<TensorId>& inputs) {
    std::string error;
    const auto rule = parse_rule(def.rule, error);
    if (!count_inputs(decl, *rule, diagnostics_)) return false;
    std::map<std::string, TensorId> local;
    for (size_t i = 0; i < inputs.size(); ++i) local[rule->operands[i].name] = inputs[i];
    std::optional<CompositePins> pins;
    if (!decl.modes.empty() && !(pins = pins_of(decl, def, *rule, inputs))) return false;
    OpDecl simple = decl;
    simple.modes.clear();
    for (const CompositeStep& step : def.steps) {
      const std::vector<std::string> names = words_of(step.inputs);
      std::vector<TensorId> step_inputs;
      for (const std::string& name : names) step_inputs.push_back(local.at(name));
      const bool last = &step == &def.steps.back();
      const std::string step_output(step.output);
      const std::string output = last ? decl.outputs[0] : decl.name + "." + step_output;
      auto op = make_op(graph_, rules_, simple, *find_op(step.op), decl.name, step_inputs, 1,
                        diagnostics_);
      if (!op) return false;
      if (pins) pins->pin(*op, names, step_output);
      append(std::move(*op), {output});
      local[step_output] = names_.at(output);
    }
    return true;
  }

  std::optional<CompositePins> pins_of(const OpDecl& decl, const OpDef& def, const FactorRule& rule,
                                       const std::vector<TensorId>& inputs) {
    std::vector<Shape> shapes;
    for (const TensorId t : inputs) shapes.push_back(graph_.value(t).shape);
    std::string error;
    const auto bound = bind_op(def, rule, shapes, 1, {}, error);
    if (bound)
      return CompositePins(rule, *bound, read_pins(graph_, decl, def, rule, *bound, diagnostics_));
    diagnostics_.add({decl.pointer, fmt::format("the shapes do not fit {}: {}", decl.op, error), "",
                      "The rule is " + quoted(rule.text) + ".", "shape-mismatch"});
    return std::nullopt;
  }

  bool add_simple(const OpDecl& decl, const OpDef& def, const std::string& name,
                  const std::vector<TensorId>& inputs, const std::vector<std::string>& outputs) {
    auto op = make_op(graph_, rules_, decl, def, name, inputs, outputs.size(), diagnostics_);
    if (op) append(std::move(*op), outputs);
    return op.has_value();
  }

  void append(Op op, const std::vector<std::string>& outputs) {
    const OpId id(graph_.ops.size());
    for (size_t i = 0; i < op.inputs.size(); ++i)
      graph_.values[op.inputs[i].at()].uses.push_back({id, i});
    for (size_t r = 0; r < outputs.size(); ++r) {
      Value v = result_of(graph_, op, r);
      v.name = outputs[r];
      v.producer = id;
      v.result = r;
      if (const auto it = notes_.find(outputs[r]); it != notes_.end()) note(*it->second, v);
      check_size(v);
      op.outputs.push_back(add_value(std::move(v)));
      names_[outputs[r]] = op.outputs.back();
    }
    graph_.stages = std::max(graph_.stages, op.stage + 1);
    graph_.ops.push_back(std::move(op));
  }

  // What the model says about a value that an op produces.
  void note(const TensorDecl& t, Value& v) {
    v.uneven |= t.uneven;
    if (t.residual) {
      v.residual = *t.residual;
      v.stored_by = t.stored_by;
    }
    Shape stated;
    for (const DimDecl& d : t.shape) stated.push_back(d.batch ? batch_ : d.size);
    if (!stated.empty() && stated != v.shape)
      diagnostics_.add(
          {t.pointer + "/shape",
           fmt::format("{} is stated as [{}]", quoted(t.name), fmt::join(stated, ", ")),
           fmt::format("[{}], as its op computes it", fmt::join(v.shape, ", ")), "",
           "shape-mismatch"});
  }

  // --- pins --------------------------------------------------------------------------------------

  void pin_outputs(const OpDecl& decl) {
    for (const std::string& output : decl.outputs) {
      const LayoutDecl* layout = nullptr;
      if (const auto it = pins_.find(output); it != pins_.end()) layout = &it->second->layout;
      if (const auto it = notes_.find(output); it != notes_.end() && it->second->layout)
        layout = &*it->second->layout;
      if (layout) pin(decl, output, *layout);
    }
  }

  // From here on the name means the pinned value.
  void pin(const OpDecl& decl, const std::string& output, const LayoutDecl& layout) {
    OpDecl node;
    node.op = "redistribute";
    node.stage = decl.stage;
    node.module = decl.module;
    node.recomputed = decl.recomputed;
    node.pointer = layout.pointer;
    node.attributes["layout"] = {layout, layout.pointer};
    add_simple(node, *find_op("redistribute"), decl.name, {names_.at(output)}, {output});
  }

  // Rows of several experts are a different number on every rank; no framework sends them so.
  void check_borders() {
    for (const Value& v : graph_.values)
      for (const Use& use : v.uses)
        if (v.routing && !v.leaf() && graph_.op(use.op).stage != graph_.op(v.producer).stage) {
          diagnostics_.add(
              {graph_.op(use.op).pointer,
               fmt::format("{}, the rows of experts, crosses from stage {} to {}", quoted(v.name),
                           graph_.op(v.producer).stage, graph_.op(use.op).stage),
               "dispatch, experts and combine on one stage", "", "routed-border"});
          break;
        }
  }

  // --- stated calls ------------------------------------------------------------------------------

  void add_call(const CallDecl& decl) {
    StatedCall call{decl, 0, false, {}};
    for (const std::string& name : decl.axes)
      if (const Axis* axis = graph_.mesh.find(name)) {
        call.atoms |= axis->atoms;
        call.expert |= axis->expert;
      }
    if (graph_.mesh.size(call.atoms) == 1) return;
    if (decl.when == CallDecl::When::forward || decl.when == CallDecl::When::backward)
      call.before = op_named(decl.before);
    graph_.calls.push_back(std::move(call));
  }

  // The first of those that an op of the model became.
  OpId op_named(const std::string& name) const {
    for (size_t o = 0; o < graph_.ops.size(); ++o)
      if (graph_.ops[o].name == name && !graph_.ops[o].is("transfer")) return OpId(o);
    throw Fault("a call before an op that is not there: " + name);
  }

  // --- loss and stages ---------------------------------------------------------------------------

  void find_loss() {
    const auto it = names_.find(model_.loss);
    if (it == names_.end()) return;
    graph_.loss = it->second;
    const Value& v = graph_.value(graph_.loss);
    if (v.shape.empty()) return;
    diagnostics_.add(
        {"/loss", fmt::format("{} has shape [{}]", quoted(v.name), fmt::join(v.shape, ", ")),
         "a scalar", "End with a loss op such as mean_square or cross_entropy.", "loss-shape"});
  }

  const Model& model_;
  Diagnostics diagnostics_;
  Graph graph_;
  RuleTable rules_;
  AtomSet batch_atoms_ = 0;
  int64_t batch_ = 0;
  // Only asked for by name, never walked.
  std::unordered_map<std::string, TensorId> names_;
  std::unordered_map<std::string, const PinDecl*> pins_;
  std::unordered_map<std::string, const TensorDecl*> notes_;
  std::unordered_set<std::string_view> produced_;
};

}  // namespace

Graph build_graph(const Model& model) {
  return Builder(model).build();
}

}  // namespace s2t
