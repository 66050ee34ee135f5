// The one description an op has: an index line that names, for every dim of every operand and
// result, the factors it is made of.
//
//   x[* k] w[n k] -> y[* n]   letters are factors, `*` the remaining leading dims, one factor each
//   q[b s (g r d)]            a dim made of several factors, major first
//   x[* d!]                   d is *whole*: the local kernel needs all of it
//   z[* v] -> m[*]  v~max     a factor in operands but no result is contracted, by sum unless said
//
// `linear` lists operand sets in which the op is jointly linear with all others fixed: "{x} {w}",
// "{x b}". Known here: the notation and how it binds to shapes. Not known: which ops exist,
// layouts, meshes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/base/units.h"
#include "analyzer/layout/layout.h"

namespace s2t {

struct FactorName {
  std::string name;    // "n"; "*" stands for all remaining leading dims
  bool whole = false;  // written with '!'
};

struct TensorPattern {
  std::string name;
  std::vector<std::vector<FactorName>> dims;  // per dim, its factors, major first
};

struct FactorRule {
  std::vector<TensorPattern> operands;
  std::vector<TensorPattern> results;
  std::map<std::string, Combiner> combiners;  // contracted factors that are not summed
  std::string text;                           // as written
};

// Parses the notation; on a mistake returns nullopt and says why in `error` (with the column).
std::optional<FactorRule> parse_rule(std::string_view text, std::string& error);

// Operand sets of "{x} {w}" as indices into rule.operands.
std::vector<std::vector<size_t>> parse_linear(std::string_view text, const FactorRule& rule);

struct Factor {
  std::string name;  // "n", "*0", "*1", ...
  int64_t size = 0;
  bool whole = false;
  bool in_result = false;             // false: contracted
  Combiner combiner = Combiner::sum;  // how a contraction's terms combine
};

// A rule with every factor's size known. Each dim of each tensor = product of its factors.
struct BoundRule {
  std::vector<Factor> factors;
  // [tensor][dim] -> factors, major first
  std::vector<std::vector<std::vector<FactorIndex>>> operands;
  std::vector<std::vector<std::vector<FactorIndex>>> results;
  std::vector<std::vector<size_t>> linear;  // operand sets

  std::optional<FactorIndex> find(std::string_view name) const;
  bool has(const std::vector<std::vector<FactorIndex>>& tensor, FactorIndex f) const;
};

// Solves factor sizes from operand shapes and `sizes` (needed where a compound dim leaves a
// choice). On a mistake returns nullopt and says why in `error`, naming the operand and dim.
std::optional<BoundRule> bind_rule(const FactorRule& rule, const std::vector<Shape>& operands,
                                   const std::map<std::string, int64_t>& sizes, std::string& error);

Shape result_shape(const BoundRule& rule, size_t result);

}  // namespace s2t
