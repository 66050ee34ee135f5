// Concrete instances of every op of the table: shapes chosen from its rule, values at random.
#pragma once

#include "tests/prover/proof.h"

namespace s2t::prover {

// What a row needs beyond the generic choice of sizes (8 per factor, 4 in rules with many factors).
struct Override {
  std::string op;
  std::string rule = {};  // for rows whose rule the model states
  std::map<std::string, int64_t> sizes = {};
  AttributeValues attributes = {};
  bool rounds = false;  // linear, but not by integers (rope)
  int positive = -1;    // this operand must be positive
};

// A row with no override gets one instance, by the generic choice; with several, one for each.
std::vector<Instance> instances();

// The first instance of an op, with its row and rule changed: the material of negative controls.
struct Lie {
  std::string op;
  std::string rule = {};                        // "": the true one
  std::optional<std::string_view> linear = {};  // nullopt: the true ones
  AttributeValues attributes = {};
};
Instance lie(const Lie& l);

}  // namespace s2t::prover
