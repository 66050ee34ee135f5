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

std::vector<std::string> words(std::string_view text, char separator) {
  std::vector<std::string> out;
  std::string word;
  for (const char c : text) {
    if (c != separator) {
      word += c;
    } else if (!word.empty()) {
      out.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) out.push_back(word);
  return out;
}

bool lists(std::string_view text, const std::string& name) {
  const auto all = words(text, ' ');
  return text == "all" || std::find(all.begin(), all.end(), name) != all.end();
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

std::optional<size_t> operand_named(const FactorRule& rule, const std::string& name) {
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
  for (const std::string& entry : words(def.saved, ' ')) {
    const size_t arrow = entry.find("<-");
    if (entry.substr(0, arrow) != rule.operands[operand].name) continue;
    for (const std::string& name : words(entry.substr(arrow + 2), ','))
      if (const auto i = operand_named(rule, name)) needs.push_back(*i);
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
