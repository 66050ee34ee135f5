#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/base/text.h"
#include "analyzer/graph/graph.h"
#include "analyzer/graph/placements.h"

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
    for (const TensorDecl& t : model_.tensors) add_leaf(t);
    for (const OpDecl& op : model_.ops) add(op);
    if (!model_.loss.empty()) find_loss();
    diagnostics_.throw_if_any();
    insert_transfers();
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
    Routing routing{r.name, 0, 1, r.experts, r.top_k, {}, 0};
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
    graph_.routing_requests.push_back({r.counts, r.skew, r.capacity_factor, r.pad_to_capacity});
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
      if (stated[i]) v.layout[AtomIndex(i)] = *stated[i];
    for (const LayoutDecl::Entry& e : t.layout->entries)
      if (const Axis* axis = graph_.mesh.find(e.axis)) v.expert |= axis->expert;
    check_divides(v.shape, v.layout, v.uneven, graph_.mesh, t.layout->pointer, diagnostics_);
  }

  void check_size(const Value& v) {
    try {
      checked_mul(elements(v.shape), size_of(v.dtype));
    } catch (const Overflow&) {
      diagnostics_.add({v.pointer, "the bytes of " + quoted(v.name) + " do not fit in 64 bits",
                        "a smaller shape", "", "too-large"});
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
    if (!count_inputs(decl, *rule)) return false;
    std::map<std::string, TensorId> local;
    for (size_t i = 0; i < inputs.size(); ++i) local[rule->operands[i].name] = inputs[i];
    for (const CompositeStep& step : def.steps) {
      std::vector<TensorId> step_inputs;
      std::string word;
      for (const char c : std::string(step.inputs) + " ") {
        if (c != ' ') {
          word += c;
        } else {
          step_inputs.push_back(local.at(word));
          word.clear();
        }
      }
      const bool last = &step == &def.steps.back();
      const std::string output =
          last ? decl.outputs[0] : decl.name + "." + std::string(step.output);
      if (!add_simple(decl, *find_op(step.op), decl.name, step_inputs, {output})) return false;
      local[std::string(step.output)] = names_.at(output);
    }
    return true;
  }

  bool count_inputs(const OpDecl& decl, const FactorRule& rule) {
    if (decl.inputs.size() == rule.operands.size()) return true;
    std::vector<std::string> wanted;
    for (const TensorPattern& t : rule.operands) wanted.push_back(t.name);
    diagnostics_.add(
        {decl.pointer + "/inputs", fmt::format("{} inputs for {}", decl.inputs.size(), decl.op),
         fmt::format("{} ({})", wanted.size(), join(wanted, ", ")), "", "operand-count"});
    return false;
  }

  std::optional<FactorRule> notation_of(const OpDecl& decl, const OpDef& def, size_t inputs) {
    std::string stated, pointer = decl.pointer;
    if (const auto it = decl.attributes.find("rule"); it != decl.attributes.end()) {
      stated = std::get<std::string>(it->second.value);
      pointer = it->second.pointer;
    }
    std::string error;
    auto rule = rule_of(def, stated, inputs, error);
    if (!rule)
      diagnostics_.add({pointer, "the rule " + quoted(stated) + " cannot be read " + error, "",
                        "Write it like \"x[b s (h d)] -> y[b h s d]\".", "bad-rule"});
    return rule;
  }

  bool add_simple(const OpDecl& decl, const OpDef& def, const std::string& name,
                  const std::vector<TensorId>& inputs, const std::vector<std::string>& outputs) {
    const auto notation = notation_of(decl, def, inputs.size());
    if (!notation || (inputs.size() != notation->operands.size() && !count_inputs(decl, *notation)))
      return false;
    Op op;
    op.name = name;
    op.module = decl.module;
    op.def = &def;
    op.notation = *notation;
    op.inputs = inputs;
    op.stage = decl.stage;
    op.pointer = decl.pointer;
    if (!bind(decl, op, outputs.size()) || !check_operands(decl, op)) return false;
    read_attributes(decl, op);
    read_modes(decl, op);
    if (const auto it = decl.attributes.find("layout"); it != decl.attributes.end())
      op.target = read_layout(std::get<LayoutDecl>(it->second.value), graph_.mesh,
                              graph_.value(inputs[0]).shape.size(), diagnostics_);
    append(std::move(op), outputs);
    return true;
  }

  bool bind(const OpDecl& decl, Op& op, size_t outputs) {
    std::vector<Shape> shapes;
    for (const TensorId t : op.inputs) shapes.push_back(graph_.value(t).shape);
    std::map<std::string, int64_t> sizes;
    if (const auto it = decl.attributes.find("sizes"); it != decl.attributes.end())
      sizes = std::get<std::map<std::string, int64_t>>(it->second.value);
    std::string error;
    auto bound = bind_op(*op.def, op.notation, shapes, outputs, sizes, error);
    if (!bound)
      diagnostics_.add({decl.pointer, fmt::format("the shapes do not fit {}: {}", decl.op, error),
                        "", "The rule is " + quoted(op.notation.text) + ".", "shape-mismatch"});
    else if (bound->results.size() != outputs)
      diagnostics_.add({decl.pointer + "/outputs",
                        fmt::format("{} outputs for {}", outputs, decl.op),
                        std::to_string(bound->results.size()), "", "operand-count"});
    if (!bound || bound->results.size() != outputs) return false;
    op.rule = std::move(*bound);
    return true;
  }

  bool check_operands(const OpDecl& decl, const Op& op) {
    bool ok = true;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Value& v = graph_.value(op.inputs[i]);
      const bool wants_integer = is_integer_operand(*op.def, op.notation, i);
      if (wants_integer == is_differentiable(v.dtype) && (wants_integer || needs_float(op))) {
        diagnostics_.add({fmt::format("{}/inputs/{}", decl.pointer, i),
                          fmt::format("{} is {}", quoted(v.name), info(v.dtype).name),
                          wants_integer ? "an integer tensor" : "a floating-point tensor", "",
                          "dtype-mismatch"});
        ok = false;
      }
      if (v.producer.valid() && graph_.op(v.producer).stage > op.stage) {
        diagnostics_.add(
            {decl.pointer + "/stage",
             fmt::format("op {} is on stage {} but reads {} of stage {}", quoted(op.name), op.stage,
                         quoted(v.name), graph_.op(v.producer).stage),
             fmt::format("a stage from {} on", graph_.op(v.producer).stage),
             "Stages never go backwards along an edge.", "stage-backwards"});
        ok = false;
      }
    }
    return ok;
  }

  // Shape ops move anything; every other op computes with floating-point numbers.
  static bool needs_float(const Op& op) { return op.def->family != "shape"; }

  void read_attributes(const OpDecl& decl, Op& op) {
    for (const auto& [key, attribute] : decl.attributes) {
      if (const auto* i = std::get_if<int64_t>(&attribute.value)) op.attributes[key] = *i;
      if (const auto* d = std::get_if<double>(&attribute.value)) op.attributes[key] = *d;
      if (const auto* b = std::get_if<bool>(&attribute.value)) op.attributes[key] = *b;
      if (const auto* s = std::get_if<std::string>(&attribute.value)) op.attributes[key] = *s;
    }
  }

  void read_modes(const OpDecl& decl, Op& op) {
    op.pinned.resize(graph_.atoms());
    for (const auto& [name, text] : decl.modes) {
      const std::string pointer = decl.pointer + "/modes/" + name;
      const Axis* axis = graph_.mesh.find(name);
      const auto mode = parse_mode(text, op);
      if (!axis)
        diagnostics_.add({pointer, "no axis named " + quoted(name),
                          "an axis of the mesh (" + quoted_list(graph_.mesh.axis_names()) + ")",
                          did_you_mean(name, graph_.mesh.axis_names()), "unknown-axis"});
      else if (!mode)
        diagnostics_.add({pointer, quoted(text) + " is no mode of " + decl.op, mode_choices(op),
                          "The rule is " + quoted(op.notation.text) + ".", "bad-mode"});
      else
        for (size_t i = 0; i < graph_.atoms(); ++i)
          if (contains(axis->atoms, AtomIndex(i))) op.pinned[i] = *mode;
    }
  }

  static std::optional<Mode> parse_mode(const std::string& text, const Op& op) {
    if (text == "redundant") return Mode::redundant();
    if (text == "linear" && !op.rule.linear.empty()) return Mode::linear(0);
    for (size_t g = 0; g < op.rule.linear.size(); ++g)
      for (const size_t operand : op.rule.linear[g])
        if (text == "linear(" + op.notation.operands[operand].name + ")") return Mode::linear(g);
    if (text.rfind("split(", 0) == 0 && text.back() == ')') {
      const auto f = op.rule.find(text.substr(6, text.size() - 7));
      if (f && !op.rule.factors[f->at()].whole) return Mode::split(*f);
    }
    return std::nullopt;
  }

  static std::string mode_choices(const Op& op) {
    std::vector<std::string> names{"redundant"};
    for (const Factor& f : op.rule.factors)
      if (!f.whole) names.push_back("split(" + f.name + ")");
    if (!op.rule.linear.empty()) names.push_back("linear");
    return quoted_list(names, 12);
  }

  void append(Op op, const std::vector<std::string>& outputs) {
    const OpId id(graph_.ops.size());
    for (size_t i = 0; i < op.inputs.size(); ++i)
      graph_.values[op.inputs[i].at()].uses.push_back({id, i});
    for (size_t r = 0; r < outputs.size(); ++r) {
      Value v = result_value(op, r);
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

  Value result_value(const Op& op, size_t r) const {
    Value v;
    v.shape = result_shape(op.rule, r);
    v.residual = graph_.switches.residual;
    v.pointer = op.pointer;
    v.dtype = DType::f32;
    for (const TensorId t : op.inputs)
      if (is_differentiable(graph_.value(t).dtype) || op.inputs.size() == 1) {
        v.dtype = graph_.value(t).dtype;
        break;
      }
    if (op.def->float32_result && size_of(v.dtype) < 4) v.dtype = DType::f32;
    if (const auto it = op.attributes.find("dtype"); it != op.attributes.end())
      v.dtype = parse_dtype(std::get<std::string>(it->second)).value_or(v.dtype);
    for (const TensorId t : op.inputs) v.uneven |= graph_.value(t).uneven;
    v.routing = routing_of(op, r);
    return v;
  }

  // Ragged values keep [experts, tokens, ...] as long as both leading factors survive.
  std::optional<size_t> routing_of(const Op& op, size_t r) const {
    if (op.is("moe_combine")) return std::nullopt;
    if (op.is("moe_dispatch")) return routing_named(op);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Value& in = graph_.value(op.inputs[i]);
      if (!in.routing || op.rule.results[r].size() < 2) continue;
      if (op.rule.operands[i][0] == op.rule.results[r][0] &&
          op.rule.operands[i][1] == op.rule.results[r][1])
        return in.routing;
    }
    return std::nullopt;
  }

  std::optional<size_t> routing_named(const Op& op) const {
    const auto it = op.attributes.find("routing");
    for (size_t i = 0; it != op.attributes.end() && i < graph_.routings.size(); ++i)
      if (graph_.routings[i].name == std::get<std::string>(it->second)) return i;
    return std::nullopt;
  }

  // What the model says about a value that an op produces.
  void note(const TensorDecl& t, Value& v) {
    v.uneven |= t.uneven;
    if (t.residual) v.residual = *t.residual;
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
    node.pointer = layout.pointer;
    node.attributes["layout"] = {layout, layout.pointer};
    add_simple(node, *find_op("redistribute"), decl.name, {names_.at(output)}, {output});
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

  // Groups ops by stage and puts a transfer op on every border that a value crosses; a value needed
  // two stages on is relayed by the stage between, as pipeline runtimes pass it.
  void insert_transfers() {
    if (graph_.stages == 1) return;
    std::vector<Op> ops = std::move(graph_.ops);
    graph_.ops.clear();
    std::vector<std::optional<int>> last_use(graph_.values.size());
    for (const Op& op : ops)
      for (const TensorId t : op.inputs)
        last_use[t.at()] = std::max(last_use[t.at()].value_or(0), op.stage);
    const size_t originals = graph_.values.size();
    std::vector<TensorId> here(originals);  // the value's name in the stage at hand
    std::vector<int> home(originals, -1);
    for (size_t v = 0; v < originals; ++v) here[v] = TensorId(v);
    for (const Op& op : ops)
      for (const TensorId t : op.outputs) home[t.at()] = op.stage;
    for (Value& v : graph_.values) v.uses.clear();
    for (int stage = 0; stage < graph_.stages; ++stage) {
      for (size_t v = 0; stage > 0 && v < originals; ++v)
        if (home[v] >= 0 && home[v] < stage && last_use[v].value_or(-1) >= stage)
          here[v] = transfer(here[v], stage);
      for (const Op& op : ops)
        if (op.stage == stage) replay(op, here);
    }
  }

  TensorId transfer(TensorId from, int stage) {
    Op op;
    op.def = find_op("transfer");
    std::string error;
    op.notation = *parse_rule(op.def->rule, error);
    op.rule = *bind_rule(op.notation, {graph_.value(from).shape}, {}, error);
    op.name = graph_.value(from).name;
    op.stage = stage;
    op.inputs = {from};
    op.pinned.resize(graph_.atoms());
    op.pointer = graph_.value(from).pointer;
    const OpId id(graph_.ops.size());
    graph_.values[from.at()].uses.push_back({id, 0});
    Value v = graph_.value(from);
    v.uses.clear();
    v.producer = id;
    v.result = 0;
    v.requires_grad = is_differentiable(v.dtype);  // every framework marks the receive buffer so
    op.outputs = {add_value(std::move(v))};
    graph_.ops.push_back(op);
    return op.outputs[0];
  }

  void replay(Op op, const std::vector<TensorId>& here) {
    const OpId id(graph_.ops.size());
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      op.inputs[i] = here[op.inputs[i].at()];
      graph_.values[op.inputs[i].at()].uses.push_back({id, i});
    }
    for (const TensorId t : op.outputs) graph_.values[t.at()].producer = id;
    graph_.ops.push_back(std::move(op));
  }

  const Model& model_;
  Diagnostics diagnostics_;
  Graph graph_;
  AtomSet batch_atoms_ = 0;
  int64_t batch_ = 0;
  std::map<std::string, TensorId> names_;
  std::map<std::string, const PinDecl*> pins_;
  std::map<std::string, const TensorDecl*> notes_;
  std::set<std::string> produced_;
};

}  // namespace

Graph build_graph(const Model& model) {
  return Builder(model).build();
}

}  // namespace s2t
