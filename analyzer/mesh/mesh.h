// Ranks and their coordinates: atomic axes, named axes, process group families.
//
// The ranks of a job are the mixed-radix numbers over *atoms*, slowest first. A named axis (tp, dp,
// ep, ...) is a run of consecutive atoms. Two factorisations of the same ranks (dense and expert
// axes) are two ways of cutting the same list of atoms into names, so they share whatever atoms
// they agree on; factorisations that do not nest have no such list and are refused.
//
//   dense dp 4, tp 2 and expert edp 2, ep 4:   atoms 2 | 2 | 2    dp = a0 a1, tp = a2
//                                                                edp = a0, ep = a1 a2
//
// Not known here: tensors, layouts, and why anybody communicates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/base/units.h"

namespace s2t {

// What the ranks along an axis share.
//   model:    one copy of the model is split over it (tp, sp, etp)
//   data:     different samples or tokens; parameter gradients are summed over it, and values move
//             over it only where the model shards them there (contexts, experts)
//   pipeline: different stages; never part of a layout
enum class AxisKind : uint8_t { model, data, pipeline };

// A set of atoms, bit i = atom i (0 = slowest).
using AtomSet = uint32_t;
inline constexpr size_t kMaxAtoms = 24;
constexpr AtomSet atom_bit(AtomIndex a) {
  return AtomSet{1} << a.at();
}
constexpr bool contains(AtomSet set, AtomIndex a) {
  return (set & atom_bit(a)) != 0;
}

struct Atom {
  int64_t size = 1;
  int64_t stride = 1;  // distance in rank numbers between neighbours along it
  AxisKind kind = AxisKind::model;
};

// What a caller says about one axis; `parts` (slowest first) name sub-ranges of it.
struct AxisShape {
  std::string name;
  int64_t size = 1;
  AxisKind kind = AxisKind::model;
  std::vector<AxisShape> parts;
};

struct Axis {
  std::string name;
  int64_t size = 1;
  AxisKind kind = AxisKind::model;
  AtomSet atoms = 0;
  bool expert = false;  // of the second factorisation
  bool part = false;    // names a sub-range of another axis

  bool operator==(const Axis&) const = default;
};

// All process groups that arise by fixing every coordinate outside `atoms`.
struct Family {
  std::string name;               // "tp", "dp-cp", "embd"
  std::vector<std::string> axes;  // the named axes it is made of
  AtomSet atoms = 0;
  // A family may hold only some coordinates of its (pipeline) axis: {first, last} for tied
  // embeddings.
  std::vector<int64_t> members;  // empty: all coordinates
  bool operator==(const Family&) const = default;
};

class Mesh {
 public:
  // `dense` and `expert` (may be empty) list axes slowest first. Preconditions (checked, Fault):
  // names unique, sizes >= 1; `conflict` tells whether the two nest.
  Mesh() = default;
  Mesh(const std::vector<AxisShape>& dense, const std::vector<AxisShape>& expert);

  // Why the two factorisations have no common refinement; nullopt if they do.
  static std::optional<std::string> conflict(const std::vector<AxisShape>& dense,
                                             const std::vector<AxisShape>& expert);

  int64_t world() const { return world_; }
  const std::vector<Atom>& atoms() const { return atoms_; }
  const Atom& atom(AtomIndex a) const { return atoms_[a.at()]; }
  // Dense axes, then their parts, then expert axes (an expert axis equal in name and atoms to a
  // dense one is listed once).
  const std::vector<Axis>& axes() const { return axes_; }
  const Axis* find(const std::string& name) const;
  std::vector<std::string> axis_names() const;
  std::optional<AtomIndex> pipeline_atom() const;  // at most one atom is of kind pipeline

  // Data axes of the expert factorisation, among them those that both share; none without one.
  AtomSet expert_data_atoms() const;

  int64_t size(AtomSet set) const;
  int64_t coordinate(Rank rank, AtomIndex atom) const;
  int64_t coordinate(Rank rank, AtomSet set) const;  // mixed radix over the set, slowest atom major
  Rank rank_of(const std::vector<int64_t>& atom_coordinates) const;

  // Groups of a family, ordered by their first rank; each lists its ranks in ascending order.
  std::vector<std::vector<Rank>> groups(const Family& family) const;
  std::vector<Rank> group_of(const Family& family, Rank rank) const;  // empty: not a member
  int64_t group_size(const Family& family) const;
  int64_t group_count(const Family& family) const;

  // The family of an atom set: named after the axis with exactly these atoms (dense before parts
  // before expert), else after the axes that tile it, joined by '-': dp-tp, pp-ep.
  Family family_of(AtomSet set) const;

  // The product of consecutive atoms is one rank stride only if they are adjacent: stride between
  // neighbours of a family, or nullopt if its ranks are not evenly spaced.
  std::optional<int64_t> stride(const Family& family) const;

  bool operator==(const Mesh& o) const { return axes_ == o.axes_ && world_ == o.world_; }

 private:
  void cut(const std::vector<AxisShape>& shapes, bool expert);
  void add_axis(const AxisShape& shape, int64_t slow_end, bool expert, bool part);

  int64_t world_ = 1;
  std::vector<Atom> atoms_;
  std::vector<Axis> axes_;
};

}  // namespace s2t
