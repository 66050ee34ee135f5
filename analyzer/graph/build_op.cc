#include "analyzer/graph/build_op.h"

#include <fmt/format.h>

#include "analyzer/base/text.h"
#include "analyzer/graph/placements.h"

namespace s2t {
namespace {

std::optional<size_t> routing_named(const Graph& graph, const Op& op) {
  const auto it = op.attributes.find("routing");
  for (size_t i = 0; it != op.attributes.end() && i < graph.routings.size(); ++i)
    if (graph.routings[i].name == std::get<std::string>(it->second)) return i;
  return std::nullopt;
}

class OpMaker {
 public:
  OpMaker(const Graph& graph, RuleTable& rules, Diagnostics& diagnostics)
      : graph_(graph), rules_(rules), diagnostics_(diagnostics) {}

  std::optional<Op> make(const OpDecl& decl, const OpDef& def, const std::string& name,
                         const std::vector<TensorId>& inputs, size_t outputs) {
    const auto notation = notation_of(decl, def, inputs.size());
    if (!notation) return std::nullopt;
    if (inputs.size() != (*notation)->operands.size() &&
        !count_inputs(decl, **notation, diagnostics_))
      return std::nullopt;
    Op op;
    op.name = name;
    op.module = decl.module;
    op.def = &def;
    op.notation = *notation;
    op.inputs = inputs;
    op.stage = decl.stage;
    op.recomputed = decl.recomputed;
    op.pointer = decl.pointer;
    if (!bind(decl, op, outputs) || !check_operands(decl, op)) return std::nullopt;
    read_attributes(decl, op);
    if (!check_routing(op)) return std::nullopt;
    op.pinned = read_pins(graph_, decl, def, *op.notation, *op.rule, diagnostics_);
    if (const auto it = decl.attributes.find("layout"); it != decl.attributes.end())
      op.target = read_layout(std::get<LayoutDecl>(it->second.value), graph_.mesh,
                              graph_.value(inputs[0]).shape.size(), diagnostics_);
    return op;
  }

 private:
  std::optional<Shared<FactorRule>> notation_of(const OpDecl& decl, const OpDef& def,
                                                size_t inputs) {
    std::string stated, pointer = decl.pointer;
    if (const auto it = decl.attributes.find("rule"); it != decl.attributes.end()) {
      stated = std::get<std::string>(it->second.value);
      pointer = it->second.pointer;
    }
    std::string error;
    auto rule = rules_.rule(def, stated, inputs, error);
    if (!rule)
      diagnostics_.add({pointer, "the rule " + quoted(stated) + " cannot be read " + error, "",
                        "Write it like \"x[b s (h d)] -> y[b h s d]\".", "bad-rule"});
    return rule;
  }

  bool bind(const OpDecl& decl, Op& op, size_t outputs) {
    std::vector<Shape> shapes;
    for (const TensorId t : op.inputs) shapes.push_back(graph_.value(t).shape);
    std::map<std::string, int64_t> sizes;
    if (const auto it = decl.attributes.find("sizes"); it != decl.attributes.end())
      sizes = std::get<std::map<std::string, int64_t>>(it->second.value);
    std::string error;
    auto bound = rules_.bound(*op.def, op.notation, shapes, outputs, sizes, error);
    if (!bound)
      diagnostics_.add({decl.pointer, fmt::format("the shapes do not fit {}: {}", decl.op, error),
                        "", "The rule is " + quoted(op.notation->text) + ".", "shape-mismatch"});
    else if ((*bound)->results.size() != outputs)
      diagnostics_.add({decl.pointer + "/outputs",
                        fmt::format("{} outputs for {}", outputs, decl.op),
                        std::to_string((*bound)->results.size()), "", "operand-count"});
    if (!bound || (*bound)->results.size() != outputs) return false;
    op.rule = std::move(*bound);
    return true;
  }

  bool check_operands(const OpDecl& decl, const Op& op) {
    bool ok = true;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Value& v = graph_.value(op.inputs[i]);
      const bool wants_integer = is_integer_operand(*op.def, *op.notation, i);
      if (wants_integer == is_differentiable(v.dtype) && (wants_integer || needs_float(op))) {
        diagnostics_.add({fmt::format("{}/inputs/{}", decl.pointer, i),
                          fmt::format("{} is {}", quoted(v.name), info(v.dtype).name),
                          wants_integer ? "an integer tensor" : "a floating-point tensor", "",
                          "dtype-mismatch"});
        ok = false;
      }
    }
    return ok && check_same_dtype(decl, op);
  }

  // Matrix products of two element types are an error in every framework.
  bool check_same_dtype(const OpDecl& decl, const Op& op) {
    if (op.def->family != "dense" && op.def->family != "attention" && !op.is("moe_expert"))
      return true;
    const Value& first = graph_.value(op.inputs[0]);
    bool ok = true;
    for (size_t i = 1; i < op.inputs.size(); ++i) {
      const Value& v = graph_.value(op.inputs[i]);
      if (!is_differentiable(v.dtype) || v.dtype == first.dtype) continue;
      diagnostics_.add({fmt::format("{}/inputs/{}", decl.pointer, i),
                        fmt::format("{} is {} and {} is {}", quoted(v.name), info(v.dtype).name,
                                    quoted(first.name), info(first.dtype).name),
                        "one element type", "Put a \"cast\" op before one of them.",
                        "dtype-mismatch"});
      ok = false;
    }
    return ok;
  }

  // Routing counts rows of as many experts as the op has.
  bool check_routing(const Op& op) {
    const auto r = routing_named(graph_, op);
    const auto e = op.rule->find("e");
    if (!r || !e) return true;
    const int64_t experts = op.rule->factors[e->at()].size;
    if (graph_.routings[*r].experts == experts) return true;
    diagnostics_.add({graph_.routing_pointers[*r] + "/experts",
                      fmt::format("{} experts, but the tensors of {} have {}",
                                  graph_.routings[*r].experts, quoted(op.name), experts),
                      std::to_string(experts), "", "shape-mismatch"});
    return false;
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

  const Graph& graph_;
  RuleTable& rules_;
  Diagnostics& diagnostics_;
};

// "ring(s)" of an op whose row says "s t".
std::optional<Mode> ring_of(const OpDef& def, const BoundRule& rule) {
  const std::string row(def.ring);
  const size_t space = row.find(' ');
  if (space == std::string::npos) return std::nullopt;
  const auto stays = rule.find(row.substr(0, space)), passes = rule.find(row.substr(space + 1));
  if (!stays || !passes) return std::nullopt;
  return Mode::ring(*stays, *passes);
}

std::optional<Mode> parse_mode(const std::string& text, const OpDef& def,
                               const FactorRule& notation, const BoundRule& rule) {
  if (const auto ring = ring_of(def, rule); ring && text == to_string(*ring, rule)) return ring;
  if (text == "redundant") return Mode::redundant();
  if (text == "linear" && !rule.linear.empty()) return Mode::linear(0);
  for (size_t g = 0; g < rule.linear.size(); ++g)
    for (const size_t operand : rule.linear[g])
      if (text == "linear(" + notation.operands[operand].name + ")") return Mode::linear(g);
  if (text.rfind("split(", 0) == 0 && text.back() == ')') {
    const auto f = rule.find(text.substr(6, text.size() - 7));
    if (f && !rule.factors[f->at()].whole) return Mode::split(*f);
  }
  return std::nullopt;
}

std::string mode_choices(const OpDef& def, const BoundRule& rule) {
  std::vector<std::string> names{"redundant"};
  for (const Factor& f : rule.factors)
    if (!f.whole) names.push_back("split(" + f.name + ")");
  if (!rule.linear.empty()) names.push_back("linear");
  if (const auto ring = ring_of(def, rule)) names.push_back(to_string(*ring, rule));
  return quoted_list(names, 12);
}

// Ragged values keep [experts, tokens, ...] as long as both leading factors survive.
std::optional<size_t> routing_of(const Graph& graph, const Op& op, size_t r) {
  if (op.is("moe_combine") || op.is("moe_collect")) return std::nullopt;
  if (op.is("moe_dispatch") || op.is("moe_probs")) return routing_named(graph, op);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const Value& in = graph.value(op.inputs[i]);
    if (!in.routing || op.rule->results[r].size() < 2) continue;
    if (op.rule->operands[i][0] == op.rule->results[r][0] &&
        op.rule->operands[i][1] == op.rule->results[r][1])
      return in.routing;
  }
  return std::nullopt;
}

// The wider of two floating-point types; float32 for two different ones of 16 bits.
DType promoted(DType a, DType b) {
  if (a == b || !is_differentiable(b)) return a;
  if (!is_differentiable(a)) return b;
  if (size_of(a) == size_of(b)) return DType::f32;
  return size_of(a) > size_of(b) ? a : b;
}

}  // namespace

bool count_inputs(const OpDecl& decl, const FactorRule& rule, Diagnostics& diagnostics) {
  if (decl.inputs.size() == rule.operands.size()) return true;
  std::vector<std::string> wanted;
  for (const TensorPattern& t : rule.operands) wanted.push_back(t.name);
  diagnostics.add({decl.pointer + "/inputs",
                   fmt::format("{} inputs for {}", decl.inputs.size(), decl.op),
                   fmt::format("{} ({})", wanted.size(), join(wanted, ", ")), "", "operand-count"});
  return false;
}

std::vector<std::optional<Mode>> read_pins(const Graph& graph, const OpDecl& decl, const OpDef& def,
                                           const FactorRule& notation, const BoundRule& rule,
                                           Diagnostics& diagnostics) {
  if (decl.modes.empty()) return {};
  std::vector<std::optional<Mode>> pins(graph.atoms());
  for (const auto& [name, text] : decl.modes) {
    const std::string pointer = decl.pointer + "/modes/" + name;
    const Axis* axis = graph.mesh.find(name);
    const auto mode = parse_mode(text, def, notation, rule);
    if (!axis)
      diagnostics.add({pointer, "no axis named " + quoted(name),
                       "an axis of the mesh (" + quoted_list(graph.mesh.axis_names()) + ")",
                       did_you_mean(name, graph.mesh.axis_names()), "unknown-axis"});
    else if (!mode)
      diagnostics.add({pointer, quoted(text) + " is no mode of " + decl.op, mode_choices(def, rule),
                       "The rule is " + quoted(notation.text) + ".", "bad-mode"});
    else
      for (size_t i = 0; i < graph.atoms(); ++i)
        if (contains(axis->atoms, AtomIndex(i))) pins[i] = *mode;
  }
  return pins;
}

std::optional<Op> make_op(const Graph& graph, RuleTable& rules, const OpDecl& decl,
                          const OpDef& def, const std::string& name,
                          const std::vector<TensorId>& inputs, size_t outputs,
                          Diagnostics& diagnostics) {
  return OpMaker(graph, rules, diagnostics).make(decl, def, name, inputs, outputs);
}

Value result_of(const Graph& graph, const Op& op, size_t r) {
  Value v;
  v.shape = result_shape(*op.rule, r);
  v.residual = graph.switches.residual;
  v.pointer = op.pointer;
  v.dtype = DType::f32;
  for (const TensorId t : op.inputs)
    if (is_differentiable(graph.value(t).dtype) || op.inputs.size() == 1) {
      v.dtype = graph.value(t).dtype;
      break;
    }
  if (op.def->family == "elementwise")  // PyTorch promotes
    for (const TensorId t : op.inputs) v.dtype = promoted(v.dtype, graph.value(t).dtype);
  if (op.def->float32_result && size_of(v.dtype) < 4) v.dtype = DType::f32;
  if (const auto it = op.attributes.find("dtype"); it != op.attributes.end())
    v.dtype = parse_dtype(std::get<std::string>(it->second)).value_or(v.dtype);
  for (const TensorId t : op.inputs) v.uneven |= graph.value(t).uneven;
  v.routing = routing_of(graph, op, r);
  return v;
}

}  // namespace s2t
