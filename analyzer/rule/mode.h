// How an op runs along one mesh axis, and which placement each of its tensors then has there (its
// *port*) - for values and, by duality, for their gradients.
//
//   mode         operand has f / in G   operand lacks f   result has f   result lacks f
//   redundant    R                      R                 R              R
//   split(f)     S(f)                   R                 S(f)           P(combiner of f)
//   linear(G)    P                      R                 -              P
//   ring(f)      S(f), or S(t)          R                 S(f)           -
//
// Worked example, `x[* k] w[n k] -> y[* n]`: split(n) is a column-parallel linear (x R, w S(0), y
// S), split(k) a row-parallel one (x S, w S(1), y P), split(*0) data parallelism (x S(0), w R, y
// S(0)).
//
// In a ring the op's row names a factor t beside f (`OpDef::ring`): what has t is cut along it, and
// the parts pass by every rank inside the op (comm/ring.h), so its ports are shards and what it
// sends is its own. `q[b (g r) s h] k[b g t! h!] v[b g t! j] -> o[b (g r) s j]`, ring(s): queries
// stay (q S(2), o S(2)), keys and values pass by (k S(2), v S(2)).
#pragma once

#include <optional>
#include <string>

#include "analyzer/mesh/mesh.h"
#include "analyzer/rule/factor_rule.h"

namespace s2t {

struct Mode {
  enum class Kind : uint8_t { redundant, split, linear, ring };
  Kind kind = Kind::redundant;
  FactorIndex factor;   // split, ring
  size_t group = 0;     // linear only: index into BoundRule::linear
  FactorIndex passing;  // ring only

  static Mode redundant() { return {}; }
  static Mode split(FactorIndex f) { return {Kind::split, f, 0, {}}; }
  static Mode linear(size_t g) { return {Kind::linear, {}, g, {}}; }
  static Mode ring(FactorIndex f, FactorIndex passing) { return {Kind::ring, f, 0, passing}; }
  // Whether each rank works on a part of the factor's range.
  bool cuts(FactorIndex f) const {
    return (kind == Kind::split || kind == Kind::ring) &&
           (factor == f || (kind == Kind::ring && passing == f));
  }
  bool operator==(const Mode&) const = default;
};

std::string to_string(const Mode& mode, const BoundRule& rule);  // "split(n)"

Placement operand_port(const BoundRule& rule, const Mode& mode, size_t operand);
Placement result_port(const BoundRule& rule, const Mode& mode, size_t result);

// Gradients: S <-> S, P -> R, R -> P(sum); R -> R where the op is redundant and the axis follows
// the `global` convention (one loss, computed redundantly). `per_rank` axes always owe a partial
// gradient.
Placement cotangent(Placement port, bool redundant, bool per_rank);

// The dim of a tensor that split(f) cuts; nullopt if the tensor lacks f.
std::optional<int> dim_of(const std::vector<std::vector<FactorIndex>>& tensor, FactorIndex f);

// Whether split(f) leaves every tensor in blocks, given how many ways each factor is already cut by
// slower atoms (`cuts`): of a dim (b s) the ranks that share s hold stripes, not a block, unless b
// is cut down to 1. Returns the factor that is in the way; nullopt if split(f) is possible.
std::optional<FactorIndex> in_the_way(const BoundRule& rule, FactorIndex f,
                                      const std::vector<int64_t>& cuts);

// The factor that `S(dim)` cuts on one more atom of size n, given how many ways each factor is
// already cut (`cuts`): the majormost factor of the dim that is not yet cut down to 1. nullopt if
// nothing is left.
std::optional<FactorIndex> factor_of(const BoundRule& rule, const std::vector<FactorIndex>& dim,
                                     const std::vector<int64_t>& cuts);

}  // namespace s2t
