#include "tests/prover/instances.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/base/diagnostics.h"

namespace s2t::prover {
namespace {

const std::vector<Override>& overrides() {
  static const std::vector<Override> table{
      {.op = "einsum", .rule = "x[b s k] w[h d k] -> y[b s (h d)]", .sizes = {{"h", 2}}},
      {.op = "einsum", .rule = "x[b s k] w[h d k] -> y[b s (h d)]", .sizes = {{"h", 4}}},
      {.op = "einsum", .rule = "a[i k] b[k l] c[l j] -> y[i j]"},
      {.op = "einsum", .rule = "x[a b] -> y[a]"},
      {.op = "einsum", .rule = "x[* d] g[*] -> y[* d]"},
      {.op = "reshape", .rule = "x[b s (h d)] -> y[b h s d]", .sizes = {{"h", 2}}},
      {.op = "reshape", .rule = "x[b s (h d)] -> y[b h s d]", .sizes = {{"h", 4}}},
      {.op = "reshape", .rule = "x[b h s d] -> y[b s (h d)]", .sizes = {{"h", 2}}},
      {.op = "reshape", .rule = "x[b h s d] -> y[b s (h d)]", .sizes = {{"h", 4}}},
      {.op = "transpose", .rule = "x[a b c] -> y[c a b]"},
      {.op = "unstack", .sizes = {{"p", 3}}},
      {.op = "split", .sizes = {{"p", 3}}},
      {.op = "scale", .attributes = {{"factor", 2.5}}},
      {.op = "dropout", .attributes = {{"p", 0.5}}},
      {.op = "dropout", .attributes = {{"p", 0.5}, {"seed", int64_t{7}}}},
      {.op = "cast", .attributes = {{"dtype", std::string("f64")}}},
      {.op = "rope", .rounds = true},
      {.op = "attention", .sizes = {{"g", 4}, {"r", 1}, {"s", 8}}},
      {.op = "attention", .sizes = {{"g", 2}, {"r", 4}}},
      {.op = "attention", .sizes = {{"g", 1}, {"r", 8}}, .attributes = {{"causal", true}}},
      {.op = "attention",
       .sizes = {{"g", 2}, {"r", 2}, {"s", 8}, {"t", 8}},
       .attributes = {{"causal", true}, {"scale", 0.3}}},
      {.op = "attention_biased", .sizes = {{"g", 2}, {"r", 2}}, .attributes = {{"causal", true}}},
      {.op = "attention_biased", .sizes = {{"g", 4}, {"r", 1}}},
      {.op = "attention_biased", .sizes = {{"g", 1}, {"r", 4}}},
      {.op = "attention_with_sinks", .sizes = {{"g", 2}, {"r", 4}}},
      {.op = "attention_with_sinks", .sizes = {{"g", 4}, {"r", 1}}},
      {.op = "ce_rows", .positive = 0},
  };
  return table;
}

FactorRule rule_for(const OpDef& op, const std::string& stated) {
  std::string error;
  const auto rule = rule_of(op, stated, 2, error);
  if (!rule) throw Fault(std::string(op.name) + ": " + error);
  return *rule;
}

// `*` is two leading dims.
std::vector<std::string> factors_of(const std::vector<FactorName>& dim) {
  std::vector<std::string> names;
  for (const FactorName& f : dim) {
    if (f.name != "*")
      names.push_back(f.name);
    else
      names.insert(names.end(), {"*0", "*1"});
  }
  return names;
}

std::map<std::string, int64_t> choose_sizes(const FactorRule& rule,
                                            const std::map<std::string, int64_t>& given) {
  std::map<std::string, int64_t> sizes;
  for (const TensorPattern& t : rule.operands)
    for (const auto& dim : t.dims)
      for (const std::string& f : factors_of(dim)) sizes[f] = 0;
  for (auto& [name, size] : sizes) {
    const auto it = given.find(name);
    size = it != given.end() ? it->second : sizes.size() <= 4 ? 8 : 4;
  }
  return sizes;
}

std::vector<Shape> shapes_of(const FactorRule& rule, const std::map<std::string, int64_t>& sizes) {
  std::vector<Shape> shapes;
  for (const TensorPattern& t : rule.operands) {
    shapes.emplace_back();
    for (const auto& dim : t.dims) {
      const bool star = dim.size() == 1 && dim[0].name == "*";
      int64_t product = 1;
      for (const std::string& f : factors_of(dim)) {
        if (star) shapes.back().push_back(sizes.at(f));
        product *= sizes.at(f);
      }
      if (!star) shapes.back().push_back(product);
    }
  }
  return shapes;
}

Tensor values_for(const Instance& in, size_t operand, const Shape& shape, int positive,
                  std::mt19937_64& random) {
  Tensor t = random_tensor(shape, in.exact, random);
  std::vector<double> x = t.read<double>();
  if (is_integer_operand(in.op, in.rule, operand)) {
    // Ids of table rows or classes: the factor that all integer rows index is v.
    const auto v = in.bound.find("v").value();
    Tensor ids(shape, DType::i64);
    std::vector<int64_t> id(x.size());
    for (int64_t& i : id)
      i = static_cast<int64_t>(random() % static_cast<uint64_t>(in.bound.factors[v.at()].size));
    ids.write<int64_t>(id);
    return ids;
  }
  if (static_cast<int>(operand) == positive)
    for (double& e : x) e = std::fabs(e) + 0.5;
  t.write<double>(x);
  return t;
}

// Every floating operand enters linearly: integers stay integers.
bool all_linear(const OpDef& op, const FactorRule& rule, const BoundRule& bound) {
  for (size_t i = 0; i < rule.operands.size(); ++i) {
    bool linear = is_integer_operand(op, rule, i);
    for (const auto& group : bound.linear)
      linear |= std::find(group.begin(), group.end(), i) != group.end();
    if (!linear) return false;
  }
  return true;
}

Instance build(const OpDef& op, const Override& o, size_t number) {
  Instance in{
      fmt::format("{}#{}", op.name, number), op, rule_for(op, o.rule), {}, o.attributes, {}, false};
  const auto sizes = choose_sizes(in.rule, o.sizes);
  const auto shapes = shapes_of(in.rule, sizes);
  const size_t outputs =
      op.outputs.empty() ? 1 : static_cast<size_t>(sizes.at(std::string(op.outputs)));
  std::string error;
  const auto bound = bind_op(op, in.rule, shapes, outputs, sizes, error);
  if (!bound) throw Fault(in.name + ": " + error);
  in.bound = *bound;
  in.exact = !o.rounds && all_linear(op, in.rule, in.bound);
  // The divisor of a mean is that of the unsharded tensor.
  in.attributes["count"] = static_cast<int64_t>(elements(shapes[0]));
  std::mt19937_64 random{11 + number};
  for (size_t i = 0; i < shapes.size(); ++i)
    in.inputs.push_back(values_for(in, i, shapes[i], o.positive, random));
  return in;
}

std::vector<Override> overrides_of(std::string_view op) {
  std::vector<Override> rows;
  for (const Override& o : overrides())
    if (o.op == op) rows.push_back(o);
  if (rows.empty()) rows.push_back({.op = std::string(op)});
  return rows;
}

}  // namespace

std::vector<Instance> instances() {
  std::vector<Instance> all;
  for (const OpDef& op : op_table()) {
    if (!op.steps.empty()) continue;  // made of rows that are proved themselves
    size_t number = 0;
    for (const Override& o : overrides_of(op.name)) all.push_back(build(op, o, number++));
  }
  return all;
}

Instance lie(const Lie& l) {
  OpDef op = *find_op(l.op);
  Override o = overrides_of(l.op).front();
  if (!l.rule.empty()) op.rule = l.rule;
  if (l.linear) op.linear = *l.linear;
  for (const auto& [name, value] : l.attributes) o.attributes[name] = value;
  Instance in = build(op, o, 0);
  in.op.rule = find_op(l.op)->rule;  // `l.rule` dies with the caller; the parsed rule stays
  return in;
}

}  // namespace s2t::prover
