#include "analyzer/mesh/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/text.h"
#include "analyzer/mesh/family.h"

namespace s2t {
namespace {

int64_t product(const std::vector<AxisShape>& shapes) {
  int64_t p = 1;
  for (const AxisShape& s : shapes) p *= s.size;
  return p;
}

// Rank strides at which one axis (or part) ends and the next begins, counted from the fastest rank
// digit: {1, 2, 8} for dp 4, tp 2. Inserted into `bounds`.
void add_bounds(const std::vector<AxisShape>& shapes, std::set<int64_t>& bounds) {
  int64_t stride = product(shapes);
  bounds.insert(stride);
  for (const AxisShape& s : shapes) {
    int64_t inside = stride;
    for (const AxisShape& part : s.parts) bounds.insert(inside /= part.size);
    bounds.insert(stride /= s.size);
  }
}

std::set<int64_t> all_bounds(const std::vector<AxisShape>& dense,
                             const std::vector<AxisShape>& expert) {
  std::set<int64_t> bounds{1};
  add_bounds(dense, bounds);
  if (!expert.empty()) add_bounds(expert, bounds);
  return bounds;
}

// The axis (or part) that ends at one of two strides, of which its factorisation has one.
struct End {
  AxisShape axis;
  int64_t stride;
};
End end_of_axis(const std::vector<AxisShape>& shapes, int64_t a, int64_t b) {
  int64_t end = product(shapes);
  for (const AxisShape& s : shapes) {
    if (end == a || end == b) return {s, end};
    int64_t inside = end;
    for (const AxisShape& part : s.parts) {
      if (inside == a || inside == b) return {part, inside};
      inside /= part.size;
    }
    end /= s.size;
  }
  return {{}, end};
}

}  // namespace

std::optional<std::string> Mesh::conflict(const std::vector<AxisShape>& dense,
                                          const std::vector<AxisShape>& expert) {
  if (!expert.empty() && product(dense) != product(expert))
    return fmt::format("the expert axes multiply to {} ranks and the dense axes to {}",
                       product(expert), product(dense));
  int64_t previous = 1;
  for (const int64_t bound : all_bounds(dense, expert)) {
    if (bound % previous != 0) {
      const End d = end_of_axis(dense, previous, bound), e = end_of_axis(expert, previous, bound);
      return fmt::format(
          "axis \"{}\" (size {}) and expert axis \"{}\" (size {}) do not nest: one ends at rank "
          "stride {}, the other at {}, and neither divides the other",
          d.axis.name, d.axis.size, e.axis.name, e.axis.size, d.stride, e.stride);
    }
    previous = bound;
  }
  return std::nullopt;
}

Mesh::Mesh(const std::vector<AxisShape>& dense, const std::vector<AxisShape>& expert) {
  if (const auto why = conflict(dense, expert)) throw Fault("mesh: " + *why);
  const std::set<int64_t> bounds = all_bounds(dense, expert);
  world_ = *bounds.rbegin();
  for (auto b = std::next(bounds.begin()); b != bounds.end(); ++b) {
    const int64_t stride = *std::prev(b);
    atoms_.insert(atoms_.begin(), Atom{*b / stride, stride, AxisKind::model});
  }
  if (atoms_.size() > kMaxAtoms) throw Fault("mesh: too many axes");
  cut(dense, false);
  cut(expert, true);
  for (const Axis& axis : axes_)
    for (size_t i = 0; i < atoms_.size(); ++i)
      if (contains(axis.atoms, AtomIndex(i)) && !axis.part && !axis.expert)
        atoms_[i].kind = axis.kind;
}

void Mesh::cut(const std::vector<AxisShape>& shapes, bool expert) {
  int64_t end = world_;
  for (const AxisShape& s : shapes) {
    add_axis(s, end, expert, false);
    end /= s.size;
  }
  end = world_;
  for (const AxisShape& s : shapes) {
    int64_t inside = end;
    for (const AxisShape& part : s.parts) {
      add_axis(part, inside, expert, true);
      axes_.back().kind = s.kind;
      inside /= part.size;
    }
    end /= s.size;
  }
}

void Mesh::add_axis(const AxisShape& shape, int64_t slow_end, bool expert, bool part) {
  Axis axis{shape.name, shape.size, shape.kind, 0, expert, part};
  const int64_t begin = slow_end / shape.size;
  for (size_t i = 0; i < atoms_.size(); ++i)
    if (atoms_[i].stride >= begin && atoms_[i].stride < slow_end)
      axis.atoms |= atom_bit(AtomIndex(i));
  const Axis* same = find(axis.name);
  if (same && same->atoms == axis.atoms) return;  // shared by both factorisations
  if (same) throw Fault("mesh: axis named twice with different ranks: " + axis.name);
  axes_.push_back(std::move(axis));
}

const Axis* Mesh::find(const std::string& name) const {
  const auto it =
      std::find_if(axes_.begin(), axes_.end(), [&](const Axis& a) { return a.name == name; });
  return it == axes_.end() ? nullptr : &*it;
}

std::vector<std::string> Mesh::axis_names() const {
  std::vector<std::string> names;
  for (const Axis& a : axes_) names.push_back(a.name);
  return names;
}

std::optional<AtomIndex> Mesh::pipeline_atom() const {
  for (size_t i = 0; i < atoms_.size(); ++i)
    if (atoms_[i].kind == AxisKind::pipeline) return AtomIndex(i);
  return std::nullopt;
}

AtomSet Mesh::expert_data_atoms() const {
  AtomSet second = 0, data = 0, shared = 0;
  for (const Axis& axis : axes_) {
    if (axis.expert) second |= axis.atoms;
    if (axis.kind == AxisKind::data) (axis.expert ? data : shared) |= axis.atoms;
  }
  return second ? data | (shared & ~second) : 0;
}

int64_t Mesh::size(AtomSet set) const {
  int64_t n = 1;
  for (size_t i = 0; i < atoms_.size(); ++i)
    if (contains(set, AtomIndex(i))) n *= atoms_[i].size;
  return n;
}

int64_t Mesh::coordinate(Rank rank, AtomIndex a) const {
  return rank.value / atom(a).stride % atom(a).size;
}

int64_t Mesh::coordinate(Rank rank, AtomSet set) const {
  int64_t c = 0;
  for (size_t i = 0; i < atoms_.size(); ++i)
    if (contains(set, AtomIndex(i))) c = c * atoms_[i].size + coordinate(rank, AtomIndex(i));
  return c;
}

Rank Mesh::rank_of(const std::vector<int64_t>& atom_coordinates) const {
  int64_t r = 0;
  for (size_t i = 0; i < atoms_.size(); ++i) r += atom_coordinates[i] * atoms_[i].stride;
  return Rank(static_cast<int32_t>(r));
}

std::vector<Rank> Mesh::group_of(const Family& family, Rank rank) const {
  std::vector<Rank> ranks;
  int64_t base = rank.value;
  for (size_t i = 0; i < atoms_.size(); ++i)
    if (contains(family.atoms, AtomIndex(i)))
      base -= coordinate(rank, AtomIndex(i)) * atoms_[i].stride;
  const int64_t n = size(family.atoms);
  for (int64_t c = 0; c < n; ++c) {
    if (!family.members.empty() &&
        std::find(family.members.begin(), family.members.end(), c) == family.members.end())
      continue;
    int64_t r = base, rest = c;
    for (size_t i = atoms_.size(); i-- > 0;)
      if (contains(family.atoms, AtomIndex(i))) {
        r += rest % atoms_[i].size * atoms_[i].stride;
        rest /= atoms_[i].size;
      }
    ranks.push_back(Rank(static_cast<int32_t>(r)));
  }
  // Ascending already: the slowest atom is the major digit of c.
  const bool member = std::binary_search(ranks.begin(), ranks.end(), rank);
  return member ? ranks : std::vector<Rank>{};
}

std::vector<std::vector<Rank>> Mesh::groups(const Family& family) const {
  std::vector<std::vector<Rank>> all;
  for (int64_t r = 0; r < world_; ++r) {
    std::vector<Rank> group = group_of(family, Rank(static_cast<int32_t>(r)));
    if (!group.empty() && group.front().value == r) all.push_back(std::move(group));
  }
  return all;
}

int64_t Mesh::group_size(const Family& family) const {
  return family.members.empty() ? size(family.atoms) : static_cast<int64_t>(family.members.size());
}

int64_t Mesh::group_count(const Family& family) const {
  return world_ / size(family.atoms);
}

namespace {

// Axes whose atoms are in a set, the slowest first: of one factorisation, then what they leave over
// of the next.
struct Tiling {
  std::vector<const Axis*> axes;
  AtomSet rest;  // not covered
};

Tiling tile(const Mesh& mesh, AtomSet set, std::initializer_list<bool> factorisations) {
  Tiling t{{}, set};
  for (const bool expert : factorisations)
    for (const Axis& axis : mesh.axes()) {
      if (axis.expert != expert || axis.atoms == 0 || (axis.atoms & t.rest) != axis.atoms) continue;
      t.axes.push_back(&axis);
      t.rest &= ~axis.atoms;
    }
  const auto slowest = [](const Axis* axis) { return axis->atoms & (~axis->atoms + 1); };
  std::sort(t.axes.begin(), t.axes.end(),
            [&](const Axis* a, const Axis* b) { return slowest(a) < slowest(b); });
  return t;
}

std::optional<Tiling> one_axis(const Mesh& mesh, AtomSet set, bool expert) {
  for (const Axis& a : mesh.axes())
    if (a.expert == expert && a.atoms == set) return Tiling{{&a}, 0};
  return std::nullopt;
}

// The factorisation that is meant, then the other, then both (ep that reaches over tp).
Tiling best_tiling(const Mesh& mesh, AtomSet set, bool expert) {
  if (const auto one = one_axis(mesh, set, expert)) return *one;
  if (const Tiling t = tile(mesh, set, {expert}); !t.rest) return t;
  if (const auto one = one_axis(mesh, set, !expert)) return *one;
  const Tiling meant_first = tile(mesh, set, {expert, !expert});
  const Tiling other_first = tile(mesh, set, {!expert, expert});
  return meant_first.rest && !other_first.rest ? other_first : meant_first;
}

}  // namespace

Family family_of(const Mesh& mesh, AtomSet set, bool expert) {
  const Tiling tiling = best_tiling(mesh, set, expert);
  Family family{"", {}, set, {}};
  for (const Axis* axis : tiling.axes) family.axes.push_back(axis->name);
  for (size_t i = 0; i < mesh.atoms().size(); ++i)  // what no axis covers is named by its atom
    if (contains(tiling.rest, AtomIndex(i))) family.axes.push_back(fmt::format("atom{}", i));
  for (const std::string& name : family.axes)
    family.name += (family.name.empty() ? "" : "-") + name;
  return family;
}

size_t place_in(const std::vector<std::string>& order, const Mesh& mesh, const Family& family) {
  const std::set<std::string> wanted(family.axes.begin(), family.axes.end());
  for (size_t i = 0; i < order.size(); ++i) {
    std::set<std::string> names;
    for (const std::string& name : words_of(order[i]))
      if (mesh.find(name)) names.insert(name);
    if (names == wanted) return i;
  }
  return order.size();
}

Family Mesh::family_of(AtomSet set) const {
  return s2t::family_of(*this, set, false);
}

// Whatever the number of ranks: atoms that follow each other are one digit.
std::optional<int64_t> Mesh::stride(const Family& family) const {
  if (family.members.size() > 2) return std::nullopt;
  if (!family.members.empty()) {
    const std::vector<Rank> first = group_of(family, Rank(0));
    return first.size() < 2 ? 1 : first[1].value - first[0].value;
  }
  std::optional<int64_t> step;
  int64_t next = 0;
  for (size_t i = atoms_.size(); i-- > 0;) {
    if (!contains(family.atoms, AtomIndex(i)) || atoms_[i].size == 1) continue;
    if (step && atoms_[i].stride != next) return std::nullopt;
    if (!step) step = atoms_[i].stride;
    next = atoms_[i].stride * atoms_[i].size;
  }
  return step.value_or(1);
}

}  // namespace s2t
