#include "analyzer/graph/composite_pins.h"

#include <algorithm>
#include <utility>

namespace s2t {

CompositePins::CompositePins(const FactorRule& notation, const BoundRule& rule,
                             std::vector<std::optional<Mode>> pins)
    : pins_(std::move(pins)) {
  for (size_t i = 0; i < rule.operands.size(); ++i)
    dims_[notation.operands[i].name] = rule.operands[i];
}

void CompositePins::pin(Op& step, const std::vector<std::string>& inputs,
                        const std::string& output) {
  std::vector<FactorIndex> of_composite(step.rule->factors.size());  // invalid: of the step alone
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Dims& whole = dims_.at(inputs[i]);
    for (size_t d = 0; d < whole.size(); ++d) {
      const auto& own = step.rule->operands[i][d];
      for (size_t k = 0; k < own.size() && own.size() == whole[d].size(); ++k)
        of_composite[own[k].at()] = whole[d][k];
    }
  }
  Dims& result = dims_[output] = step.rule->results[0];
  for (auto& dim : result)
    for (FactorIndex& f : dim) f = of_composite[f.at()];
  step.pinned.resize(pins_.size());
  for (size_t a = 0; a < pins_.size(); ++a) {
    if (!pins_[a] || pins_[a]->kind != Mode::Kind::split) {
      step.pinned[a] = pins_[a];
      continue;
    }
    const auto f = std::find(of_composite.begin(), of_composite.end(), pins_[a]->factor);
    const auto index = static_cast<size_t>(f - of_composite.begin());
    if (f != of_composite.end() && !step.rule->factors[index].whole)
      step.pinned[a] = Mode::split(FactorIndex(index));
  }
}

}  // namespace s2t
