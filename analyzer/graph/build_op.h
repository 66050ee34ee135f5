// Makes one simple op of the graph from what the model says about it: rule bound to shapes,
// operands checked, attributes and pinned modes read. Only build.cc reads this.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/graph/graph.h"
#include "analyzer/graph/rules.h"

namespace s2t {

// Reports a wrong number of inputs; true if it is right.
bool count_inputs(const OpDecl& decl, const FactorRule& rule, Diagnostics& diagnostics);

// The op without outputs, named `name`; nullopt if something was reported. `def` is the row of the
// op itself or of one step of a composite that `decl` asks for.
std::optional<Op> make_op(const Graph& graph, RuleTable& rules, const OpDecl& decl,
                          const OpDef& def, const std::string& name,
                          const std::vector<TensorId>& inputs, size_t outputs,
                          Diagnostics& diagnostics);

// The pinned modes of an op or a composite, per atom, empty if none; wrong ones are reported.
std::vector<std::optional<Mode>> read_pins(const Graph& graph, const OpDecl& decl, const OpDef& def,
                                           const FactorRule& notation, const BoundRule& rule,
                                           Diagnostics& diagnostics);

// Shape, dtype and raggedness of result `r` of an op.
Value result_of(const Graph& graph, const Op& op, size_t r);

}  // namespace s2t
