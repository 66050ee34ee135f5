#include "analyzer/rule/mode.h"

#include <algorithm>

namespace s2t {

std::string to_string(const Mode& mode, const BoundRule& rule) {
  switch (mode.kind) {
    case Mode::Kind::redundant:
      return "redundant";
    case Mode::Kind::split:
      return "split(" + rule.factors[mode.factor.at()].name + ")";
    case Mode::Kind::linear:
      return "linear";
    case Mode::Kind::ring:
      return "ring(" + rule.factors[mode.factor.at()].name + ")";
  }
  return "";
}

std::optional<int> dim_of(const std::vector<std::vector<FactorIndex>>& tensor, FactorIndex f) {
  for (size_t d = 0; d < tensor.size(); ++d)
    if (std::find(tensor[d].begin(), tensor[d].end(), f) != tensor[d].end())
      return static_cast<int>(d);
  return std::nullopt;
}

Placement operand_port(const BoundRule& rule, const Mode& mode, size_t operand) {
  if (mode.kind == Mode::Kind::split) {
    const auto dim = dim_of(rule.operands[operand], mode.factor);
    return dim ? Placement::S(*dim) : Placement::R();
  }
  if (mode.kind == Mode::Kind::linear) {
    const auto& group = rule.linear[mode.group];
    const bool member = std::find(group.begin(), group.end(), operand) != group.end();
    return member ? Placement::P() : Placement::R();
  }
  if (mode.kind == Mode::Kind::ring) {
    const auto& dims = rule.operands[operand];
    const auto stays = dim_of(dims, mode.factor), passes = dim_of(dims, mode.passing);
    return stays ? Placement::S(*stays) : passes ? Placement::S(*passes) : Placement::R();
  }
  return Placement::R();
}

Placement result_port(const BoundRule& rule, const Mode& mode, size_t result) {
  if (mode.kind == Mode::Kind::split || mode.kind == Mode::Kind::ring) {
    const auto dim = dim_of(rule.results[result], mode.factor);
    return dim ? Placement::S(*dim) : Placement::P(rule.factors[mode.factor.at()].combiner);
  }
  return mode.kind == Mode::Kind::linear ? Placement::P() : Placement::R();
}

Placement cotangent(Placement port, bool redundant, bool per_rank) {
  if (port.is_shard()) return port;
  if (port.is_partial()) return Placement::R();
  return redundant && !per_rank ? Placement::R() : Placement::P();
}

std::optional<FactorIndex> in_the_way(const BoundRule& rule, FactorIndex f,
                                      const std::vector<int64_t>& cuts) {
  for (const auto* tensors : {&rule.operands, &rule.results})
    for (const auto& tensor : *tensors) {
      const auto d = dim_of(tensor, f);
      if (!d) continue;
      for (const FactorIndex major : tensor[static_cast<size_t>(*d)]) {
        if (major == f) break;
        if (rule.factors[major.at()].size > cuts[major.at()]) return major;
      }
    }
  return std::nullopt;
}

std::optional<FactorIndex> factor_of(const BoundRule& rule, const std::vector<FactorIndex>& dim,
                                     const std::vector<int64_t>& cuts) {
  for (const FactorIndex f : dim)
    if (rule.factors[f.at()].size > cuts[f.at()]) return f;
  return std::nullopt;
}

}  // namespace s2t
