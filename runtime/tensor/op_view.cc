#include "runtime/tensor/op_view.h"

#include <algorithm>

#include "analyzer/base/diagnostics.h"

namespace s2t {

OpView whole_view(const BoundRule& rule) {
  OpView view{rule, std::vector<int64_t>(rule.factors.size(), 0), {}};
  for (const Factor& f : rule.factors) view.global.push_back(f.size);
  return view;
}

OpView local_view(const BoundRule& rule, std::span<const Mode> modes, const Mesh& mesh, Rank rank) {
  if (modes.size() != mesh.atoms().size()) throw Fault("local_view: one mode per atom, please");
  OpView view = whole_view(rule);
  std::vector<int64_t> ways(rule.factors.size(), 1), block(rule.factors.size(), 0);
  for (size_t a = 0; a < modes.size(); ++a) {
    const int64_t n = mesh.atom(AtomIndex(a)).size;
    for (size_t f = 0; f < ways.size(); ++f) {
      if (!modes[a].cuts(FactorIndex(f))) continue;
      block[f] = block[f] * n + mesh.coordinate(rank, AtomIndex(a));
      ways[f] *= n;
    }
  }
  for (size_t f = 0; f < ways.size(); ++f) {
    const int64_t size = view.global[f];
    const int64_t chunk = (size + ways[f] - 1) / ways[f];
    view.offset[f] = std::min(block[f] * chunk, size);
    view.rule.factors[f].size = std::min(chunk, size - view.offset[f]);
  }
  return view;
}

Shape operand_shape(const BoundRule& rule, size_t operand) {
  Shape shape;
  for (const auto& dim : rule.operands[operand]) {
    int64_t size = 1;
    for (const FactorIndex f : dim) size *= rule.factors[f.at()].size;
    shape.push_back(size);
  }
  return shape;
}

}  // namespace s2t
