#include "analyzer/ops/op.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/base/diagnostics.h"
#include "analyzer/ops/families.h"

namespace s2t {
namespace {

std::vector<OpDef> join_families() {
  std::vector<OpDef> all;
  for (const auto family : {dense_ops(), elementwise_ops(), norm_ops(), embedding_ops(),
                            attention_ops(), loss_ops(), moe_ops(), shape_ops()})
    all.insert(all.end(), family.begin(), family.end());
  return all;
}

// The next word of `rest`, which it leaves; "" at the end.
std::string_view next_word(std::string_view& rest, char separator) {
  while (!rest.empty() && rest.front() == separator) rest.remove_prefix(1);
  const std::string_view word = rest.substr(0, rest.find(separator));
  rest.remove_prefix(word.size());
  return word;
}

bool lists(std::string_view text, std::string_view name) {
  if (text == "all") return true;
  for (std::string_view rest = text;;) {
    const std::string_view word = next_word(rest, ' ');
    if (word.empty()) return false;
    if (word == name) return true;
  }
}

// "x0[* c0!] x1[* c1!] -> y[* c!]": every part's width is whole, and so is their sum.
FactorRule concat_rule(size_t operands) {
  FactorRule rule;
  for (size_t i = 0; i < operands; ++i) {
    const std::string n = std::to_string(i);
    rule.operands.push_back({"x" + n, {{{"*", false}}, {{"c" + n, true}}}});
    rule.text += fmt::format("x{0}[* c{0}!] ", i);
  }
  rule.results.push_back({"y", {{{"*", false}}, {{"c", true}}}});
  rule.text += "-> y[* c!]";
  return rule;
}

std::optional<size_t> operand_named(const FactorRule& rule, std::string_view name) {
  for (size_t i = 0; i < rule.operands.size(); ++i)
    if (rule.operands[i].name == name) return i;
  return std::nullopt;
}

}  // namespace

std::span<const OpDef> op_table() {
  static const std::vector<OpDef> table = join_families();
  return table;
}

const OpDef* find_op(std::string_view name) {
  for (const OpDef& def : op_table())
    if (def.name == name) return &def;
  return nullptr;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpDef& def : op_table()) names.emplace_back(def.name);
  return names;
}

double number_or(const AttributeValues& values, const std::string& name, double fallback) {
  const auto it = values.find(name);
  if (it == values.end()) return fallback;
  if (const auto* d = std::get_if<double>(&it->second)) return *d;
  if (const auto* i = std::get_if<int64_t>(&it->second)) return static_cast<double>(*i);
  return fallback;
}

bool flag_or(const AttributeValues& values, const std::string& name, bool fallback) {
  const auto it = values.find(name);
  const auto* b = it == values.end() ? nullptr : std::get_if<bool>(&it->second);
  return b ? *b : fallback;
}

std::optional<FactorRule> rule_of(const OpDef& def, std::string_view stated, size_t operands,
                                  std::string& error) {
  if (def.name == "concat") return concat_rule(operands);
  const std::string_view text = def.rule.empty() ? stated : def.rule;
  if (!text.empty()) return parse_rule(text, error);
  error = fmt::format("{} needs a \"rule\"", def.name);
  return std::nullopt;
}

std::optional<BoundRule> bind_op(const OpDef& def, const FactorRule& rule,
                                 const std::vector<Shape>& operands, size_t outputs,
                                 std::map<std::string, int64_t> sizes, std::string& error) {
  if (!def.outputs.empty()) sizes[std::string(def.outputs)] = static_cast<int64_t>(outputs);
  if (def.name == "concat")
    for (const Shape& shape : operands) sizes["c"] += shape.empty() ? 0 : shape.back();
  std::optional<BoundRule> bound = bind_rule(rule, operands, sizes, error);
  if (!bound) return std::nullopt;
  if (!def.outputs.empty()) bound->results.assign(outputs, bound->results.front());
  if (bound->results.size() != outputs) {
    error = fmt::format("{} outputs given, {} has {}", outputs, def.name, bound->results.size());
    return std::nullopt;
  }
  bound->linear = linear_groups(def, rule);
  return bound;
}

std::vector<size_t> saved_for(const OpDef& def, const FactorRule& rule, size_t operand) {
  std::vector<size_t> needs;
  if (def.saved == "others") {
    for (size_t i = 0; i < rule.operands.size(); ++i)
      if (i != operand) needs.push_back(i);
    return needs;
  }
  for (std::string_view entries = def.saved; !entries.empty();) {
    const std::string_view entry = next_word(entries, ' ');
    const size_t arrow = entry.find("<-");
    if (arrow == std::string_view::npos || entry.substr(0, arrow) != rule.operands[operand].name)
      continue;
    for (std::string_view names = entry.substr(arrow + 2); !names.empty();)
      if (const auto i = operand_named(rule, next_word(names, ','))) needs.push_back(*i);
  }
  return needs;
}

bool stops(const OpDef& def, const FactorRule& rule, size_t operand) {
  return lists(def.stop, rule.operands[operand].name);
}

bool is_integer_operand(const OpDef& def, const FactorRule& rule, size_t operand) {
  return !def.integers.empty() && lists(def.integers, rule.operands[operand].name);
}

std::vector<std::vector<size_t>> linear_groups(const OpDef& def, const FactorRule& rule) {
  if (def.linear != "each" && def.linear != "all") return parse_linear(def.linear, rule);
  std::vector<std::vector<size_t>> groups(def.linear == "all" ? 1 : 0);
  for (size_t i = 0; i < rule.operands.size(); ++i) {
    if (def.linear == "each") groups.emplace_back();
    groups.back().push_back(i);
  }
  return groups;
}

}  // namespace s2t
