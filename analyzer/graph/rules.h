// Factor rules by what decides them, so that alike ops share one: a model of a thousand layers has
// as many rules as one layer. Only the builder of graphs reads this.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/base/shared.h"
#include "analyzer/ops/op.h"

namespace s2t {

class RuleTable {
 public:
  using Sizes = std::map<std::string, int64_t>;

  // As rule_of and bind_op (ops/op.h); what cannot be read or bound is not kept.
  std::optional<Shared<FactorRule>> rule(const OpDef& def, const std::string& stated,
                                         size_t operands, std::string& error);
  std::optional<Shared<BoundRule>> bound(const OpDef& def, const Shared<FactorRule>& rule,
                                         const std::vector<Shape>& operands, size_t outputs,
                                         const Sizes& sizes, std::string& error);

 private:
  using RuleKey = std::tuple<const OpDef*, std::string, size_t>;
  using BoundKey = std::tuple<const FactorRule*, std::vector<Shape>, size_t, Sizes>;

  std::map<RuleKey, Shared<FactorRule>> rules_;
  std::map<BoundKey, Shared<BoundRule>> bound_;
};

}  // namespace s2t
