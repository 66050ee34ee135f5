#include "analyzer/graph/rules.h"

namespace s2t {

std::optional<Shared<FactorRule>> RuleTable::rule(const OpDef& def, const std::string& stated,
                                                  size_t operands, std::string& error) {
  const RuleKey key{&def, stated, operands};
  const auto at = rules_.find(key);
  if (at != rules_.end()) return at->second;
  auto rule = rule_of(def, stated, operands, error);
  if (!rule) return std::nullopt;
  return rules_.emplace(key, std::move(*rule)).first->second;
}

std::optional<Shared<BoundRule>> RuleTable::bound(const OpDef& def, const Shared<FactorRule>& rule,
                                                  const std::vector<Shape>& operands,
                                                  size_t outputs, const Sizes& sizes,
                                                  std::string& error) {
  const BoundKey key{rule.get(), operands, outputs, sizes};
  const auto at = bound_.find(key);
  if (at != bound_.end()) return at->second;
  auto bound = bind_op(def, *rule, operands, outputs, sizes, error);
  if (!bound) return std::nullopt;
  return bound_.emplace(key, std::move(*bound)).first->second;
}

}  // namespace s2t
