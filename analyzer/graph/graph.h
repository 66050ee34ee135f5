// The step of one microbatch as a graph: values and ops in topological order, grouped by stage,
// every op bound to its factor rule. Shapes are those of the whole mesh (unsharded) and of one
// microbatch.
//
// Invariants: every value has at most one producer, and it comes before its uses; a value is used
// only in the stage where it lives (a border is an explicit `transfer` op); composites are
// expanded. Not known here: modes, layouts of intermediates, anything backward.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/shared.h"
#include "analyzer/comm/routing.h"
#include "analyzer/graph/model.h"
#include "analyzer/layout/layout.h"
#include "analyzer/mesh/mesh.h"
#include "analyzer/ops/op.h"
#include "analyzer/rule/mode.h"

namespace s2t {

struct Use {
  OpId op;
  size_t operand = 0;
  bool operator==(const Use&) const = default;
};

// A value of the graph: a leaf (parameter or input) or the result of an op.
struct Value {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
  bool parameter = false;
  bool requires_grad = false;  // leaves: as stated; a received activation: true
  bool uneven = false;         // dims may be cut into ceil-sized parts
  Residual residual = Residual::used;
  std::string_view stored_by = "residual: stored";  // what asks for that, in the user's words
  Layout layout;                                    // leaves: where the model puts it for use
  bool expert = false;                              // parameter placed on an expert axis
  std::optional<size_t> routing;                    // ragged: dim 0 experts, dim 1 tokens
  OpId producer;                                    // invalid: leaf
  size_t result = 0;                                // which result of the producer
  std::vector<Use> uses;
  std::string pointer;  // JSON pointer of what declared it

  bool leaf() const { return !producer.valid(); }
};

struct Op {
  std::string name;  // node in reports
  std::string module;
  const OpDef* def = nullptr;
  Shared<FactorRule> notation;
  Shared<BoundRule> rule;
  AttributeValues attributes;
  std::vector<TensorId> inputs, outputs;
  int stage = 0;
  int recomputed = -1;  // ops of one number are computed again before their backward
  std::vector<std::optional<Mode>> pinned;       // per atom; empty: none
  std::vector<std::optional<Placement>> target;  // redistribute: per atom; none: as it comes
  std::string pointer;

  bool is(std::string_view op) const { return def->name == op; }
  bool redistributes() const { return !target.empty(); }
};

// A collective that the model states, resolved. Never over a group of one rank.
struct StatedCall {
  CallDecl decl;
  AtomSet atoms = 0;
  bool expert = false;  // its axes are of the expert factorisation
  OpId before;          // of a forward call
};

struct Graph {
  std::string name, file;
  Mesh mesh;
  std::vector<bool> per_rank;  // gradient convention, per atom; data axes always
  AtomSet data_atoms = 0;      // of data axes
  std::vector<Value> values;
  std::vector<Op> ops;  // by stage, topological
  int stages = 1;
  TensorId loss;  // invalid: forward only
  bool loss_scale_global = false;
  int64_t microbatches = 1;
  std::vector<Routing> routings;  // counts still empty: they need the tokens per rank
  std::vector<RoutingRequest> routing_requests;
  std::vector<std::string> routing_pointers;
  std::vector<StatedCall> calls;
  std::optional<PipelineDecl> pipeline;
  GradientSyncDecl sync;
  std::vector<std::string> group_order;
  Switches switches;

  const Value& value(TensorId t) const { return values[t.at()]; }
  const Op& op(OpId o) const { return ops[o.at()]; }
  size_t atoms() const { return mesh.atoms().size(); }
};

// Throws UserError with everything that is wrong with the model.
Graph build_graph(const Model& model);

}  // namespace s2t
