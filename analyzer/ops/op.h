// What an op is to the analyzer: a row of data. Its factor rule says everything about layouts,
// forward and backward; no op has a backward rule.
//
// One file per family holds the rows; `op_table` joins them. A new op is one row here and, if it
// must run, one kernel in runtime/tensor. Not known here: shapes, layouts, meshes.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "analyzer/rule/factor_rule.h"

namespace s2t {

enum class AttributeType : uint8_t { integer, number, boolean, text, sizes, layout };

struct AttributeDef {
  std::string_view name;
  AttributeType type;
  bool required;
  std::string_view meaning;
};

// A composite op is written as a few simple ones; names are the composite's operands or earlier
// results.
struct CompositeStep {
  std::string_view op;
  std::string_view inputs;  // "z m"
  std::string_view output;
};

struct OpDef {
  std::string_view name = {};
  std::string_view family = {};
  std::string_view rule = {};      // "" where the model states it ("rule") or attributes decide it
  std::string_view linear = {};    // "{x} {w}"; "each" operand by itself, "all" together
  std::string_view saved = {};     // "x<-w w<-x": the gradient of x needs the value of w; "" none
  std::string_view stop = {};      // operands through which no gradient flows, "" none, "all"
  std::string_view integers = {};  // operands that hold integers
  std::string_view outputs = {};   // the whole factor that tells several outputs apart, "" one
  std::span<const AttributeDef> attributes = {};
  std::span<const CompositeStep> steps = {};  // not empty: composite
  std::string_view summary = {};
  // "s t": along an axis that cuts s, what has t may be cut too and pass by in a ring (ring(s)).
  std::string_view ring = {};
  bool float32_result = false;  // the result is kept in float32 whatever the operands are
};

// All rows, family by family.
std::span<const OpDef> op_table();
const OpDef* find_op(std::string_view name);
std::vector<std::string> op_names();

// Values of attributes after reading; "sizes" and layouts are consumed while the graph is built.
using AttributeValue = std::variant<int64_t, double, bool, std::string>;
using AttributeValues = std::map<std::string, AttributeValue>;
double number_or(const AttributeValues& values, const std::string& name, double fallback);
bool flag_or(const AttributeValues& values, const std::string& name, bool fallback);

// The index line of one op of a model: the row's, the one the model states (`stated`, may be
// empty), or the one that the number of operands decides (concat). nullopt and `error` if there is
// none.
std::optional<FactorRule> rule_of(const OpDef& def, std::string_view stated, size_t operands,
                                  std::string& error);

// That rule bound to operand shapes, linear groups included, with one result per output: a row with
// `.outputs = "p"` gives every index of p an output of its own ("x[p! *] -> y[*]").
std::optional<BoundRule> bind_op(const OpDef& def, const FactorRule& rule,
                                 const std::vector<Shape>& operands, size_t outputs,
                                 std::map<std::string, int64_t> sizes, std::string& error);

// Operand indices that the gradient of operand `i` needs the values of (from `saved`).
std::vector<size_t> saved_for(const OpDef& def, const FactorRule& rule, size_t operand);
bool stops(const OpDef& def, const FactorRule& rule, size_t operand);
bool is_integer_operand(const OpDef& def, const FactorRule& rule, size_t operand);
std::vector<std::vector<size_t>> linear_groups(const OpDef& def, const FactorRule& rule);

}  // namespace s2t
