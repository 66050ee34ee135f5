#include "analyzer/layout/layout.h"

#include <algorithm>

namespace s2t {

std::string to_string(Placement p) {
  if (p.is_shard()) return "S(" + std::to_string(p.dim) + ")";
  if (p.is_partial()) return p.combiner == Combiner::max ? "P(max)" : "P";
  return "R";
}

bool Layout::any_partial() const {
  return partial() != 0;
}

AtomSet Layout::sharding(int dim) const {
  AtomSet set = 0;
  for (size_t i = 0; i < size(); ++i)
    if (placements_[i].is_shard(dim)) set |= atom_bit(AtomIndex(i));
  return set;
}

AtomSet Layout::partial() const {
  AtomSet set = 0;
  for (size_t i = 0; i < size(); ++i)
    if (placements_[i].is_partial()) set |= atom_bit(AtomIndex(i));
  return set;
}

namespace {

// The widest axis that contains `atom`, lies within `todo` and has one placement throughout.
const Axis* widest_axis(const Mesh& mesh, const Layout& layout, AtomSet todo, AtomIndex atom) {
  const Axis* best = nullptr;
  for (const Axis& axis : mesh.axes()) {
    if (!contains(axis.atoms, atom) || (axis.atoms & todo) != axis.atoms) continue;
    bool uniform = true;
    for (size_t i = 0; i < layout.size(); ++i)
      if (contains(axis.atoms, AtomIndex(i))) uniform &= layout[AtomIndex(i)] == layout[atom];
    if (uniform && (!best || axis.size > best->size)) best = &axis;
  }
  return best;
}

}  // namespace

std::string to_string(const Layout& layout, const Mesh& mesh) {
  AtomSet todo = 0;
  for (size_t i = 0; i < layout.size(); ++i)
    if (!layout[AtomIndex(i)].is_replicate()) todo |= atom_bit(AtomIndex(i));
  std::string text;
  for (size_t i = 0; i < layout.size(); ++i) {
    const AtomIndex atom(i);
    if (!contains(todo, atom)) continue;
    const Axis* axis = widest_axis(mesh, layout, todo, atom);
    const AtomSet run = axis ? axis->atoms : atom_bit(atom);
    text += (text.empty() ? "" : " ") + (axis ? axis->name : mesh.family_of(run).name) + ":" +
            to_string(layout[atom]);
    todo &= ~run;
  }
  return text.empty() ? "R" : text;
}

const std::string& LayoutTexts::operator()(const Layout& layout) {
  const auto at = known_.find(layout);
  if (at != known_.end()) return at->second;
  return known_.emplace(layout, to_string(layout, mesh_)).first->second;
}

int64_t shards(const Layout& layout, int dim, const Mesh& mesh) {
  return mesh.size(layout.sharding(dim));
}

Shape local_shape(const Shape& shape, const Layout& layout, const Mesh& mesh) {
  Shape local = shape;
  for (size_t i = 0; i < layout.size(); ++i) {
    const Placement p = layout[AtomIndex(i)];
    if (!p.is_shard()) continue;
    int64_t& d = local[static_cast<size_t>(p.dim)];
    d = static_cast<int64_t>(
        ceil_div(static_cast<Count>(d), static_cast<Count>(mesh.atoms()[i].size)));
  }
  return local;
}

Count elements(const Shape& shape) {
  Count n = 1;
  for (const int64_t d : shape) n = checked_mul(n, static_cast<Count>(d));
  return n;
}

}  // namespace s2t
