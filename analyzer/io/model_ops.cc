// "ops": one after another, in the order of the forward pass.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/base/text.h"
#include "analyzer/io/model_sections.h"
#include "analyzer/ops/op.h"
#include "analyzer/rule/factor_rule.h"

namespace s2t {
namespace {

std::map<std::string, int64_t> read_sizes(const JsonCursor& at) {
  std::map<std::string, int64_t> sizes;
  JsonObject object = at.object();
  for (const JsonCursor& member : object.members())
    sizes[member.key()] = member.integer(1, kMostSize).value_or(1);
  return sizes;
}

// An index line or an element type is more than a text.
void check_text(const JsonCursor& at, std::string_view attribute, const std::string& text) {
  std::string why;
  if (attribute == "rule" && !parse_rule(text, why))
    at.error(fmt::format("the rule {} breaks {}", at.excerpt(), why), "",
             "A rule looks like \"x[* k] w[n k] -> y[* n]\".", "bad-rule");
  if (attribute == "dtype") read_dtype(at);
}

using Value = decltype(Attribute::value);

std::optional<Value> read_value(const JsonCursor& at, const AttributeDef& def,
                                const KnownAxes& known) {
  const auto some = [](auto read) { return read ? std::optional<Value>(*read) : std::nullopt; };
  switch (def.type) {
    case AttributeType::integer:
      return some(at.integer(0, kMostSize));
    case AttributeType::number:
      return some(at.number());
    case AttributeType::boolean:
      return some(at.boolean());
    case AttributeType::sizes:
      return read_sizes(at);
    case AttributeType::layout:
      return read_layout(at, known, std::nullopt);
    case AttributeType::text:
      break;
  }
  const std::optional<std::string> text = at.name();
  if (text) check_text(at, def.name, *text);
  return some(text);
}

void read_attributes(JsonObject& object, const OpDef& def, const KnownAxes& known, OpDecl& op) {
  for (const AttributeDef& row : def.attributes) {
    const JsonCursor at = row.required ? object.required(row.name) : object.optional(row.name);
    if (!at) continue;
    if (const auto value = read_value(at, row, known))
      op.attributes[std::string(row.name)] = {*value, at.pointer()};
  }
}

// "split(n)", "linear(x)": a word with a name in parentheses.
bool names_one(const std::string& text, std::string_view word) {
  return text.size() > word.size() + 2 && text.rfind(word, 0) == 0 && text[word.size()] == '(' &&
         text.back() == ')';
}

bool is_mode(const std::string& text) {
  return text == "redundant" || text == "linear" || names_one(text, "linear") ||
         names_one(text, "split") || names_one(text, "ring");
}

std::map<std::string, std::string> read_modes(const JsonCursor& at, const KnownAxes& known) {
  std::map<std::string, std::string> modes;
  JsonObject object = at.object();
  for (const JsonCursor& member : object.members()) {
    const KnownAxis* axis = find_axis(member, member.key(), known);
    const std::optional<std::string> text = member.string();
    if (axis && axis->kind == AxisKind::pipeline)
      member.error(fmt::format("a mode on pipeline axis {}", quoted(axis->name)),
                   "a model or data axis", "", "pipeline-axis");
    if (text && !is_mode(*text))
      member.error(fmt::format("mode {}", member.excerpt()),
                   "\"redundant\", \"linear\", \"split(factor)\" or \"ring(factor)\"", "",
                   "bad-mode");
    else if (axis && text)
      modes[axis->name] = *text;
  }
  return modes;
}

std::vector<std::string> read_tensor_names(const JsonCursor& at) {
  std::vector<std::string> names;
  for (const JsonCursor& element : at.elements()) names.push_back(element.name().value_or(""));
  return names;
}

std::vector<std::string> read_outputs(JsonObject& object) {
  const JsonCursor one = object.optional("output");
  const JsonCursor several = object.optional("outputs");
  if (!object.cursor()) return {};
  if (one && several)
    several.error("both \"output\" and \"outputs\"", "one of the two", "", "two-outputs");
  if (!one && !several)
    object.cursor().error("an op without a result", "\"output\", or \"outputs\" for several", "",
                          "missing-key");
  if (one) return {one.name().value_or("")};
  if (several.is(JsonKind::array) && several.elements().empty())
    several.error("an op without a result", "at least one name", "", "missing-key");
  return read_tensor_names(several);
}

const OpDef* read_op_row(const JsonCursor& at) {
  const std::optional<std::string> name = at.name();
  if (!name) return nullptr;
  const OpDef* def = find_op(*name);
  if (!def) at.unknown("op", *name, op_names());
  return def;
}

OpDecl read_op(const JsonCursor& at, const KnownAxes& known) {
  OpDecl op;
  op.pointer = at.pointer();
  JsonObject object = at.object();
  const OpDef* def = read_op_row(object.required("op"));
  op.inputs = read_tensor_names(object.required("inputs"));
  op.outputs = read_outputs(object);
  const std::string first = op.outputs.empty() ? "" : op.outputs[0];
  op.name = object.optional("name").name().value_or(first);
  op.stage = static_cast<int>(object.optional("stage").integer(0, kMostStages).value_or(0));
  op.module = object.optional("module").string().value_or("");
  op.modes = read_modes(object.optional("modes"), known);
  if (!def) {
    object.ignore_rest();  // which keys it takes is unknown too
    return op;
  }
  op.op = std::string(def->name);
  read_attributes(object, *def, known, op);
  return op;
}

}  // namespace

std::vector<OpDecl> read_ops(const JsonCursor& at, const KnownAxes& known) {
  std::vector<OpDecl> ops;
  for (const JsonCursor& element : at.elements()) ops.push_back(read_op(element, known));
  return ops;
}

}  // namespace s2t
