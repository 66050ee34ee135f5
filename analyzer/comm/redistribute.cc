#include "analyzer/comm/redistribute.h"

#include <algorithm>
#include <array>
#include <string>

#include "analyzer/base/diagnostics.h"

namespace s2t {
namespace {

// One row per pair of placement kinds; `order` sorts the steps of a plan.
struct Transition {
  Placement::Kind from, to;
  std::optional<Collective> collective;
  int order;
};

using enum Placement::Kind;
constexpr std::array<Transition, 8> kTransitions{{
    {replicate, shard, std::nullopt, 0},
    {partial, shard, Collective::reduce_scatter, 1},
    {shard, shard, Collective::all_to_all, 2},
    {partial, replicate, Collective::all_reduce, 3},
    {shard, replicate, Collective::all_gather, 4},
    {replicate, partial, std::nullopt, 5},
    {shard, partial, std::nullopt, 6},
    {partial, partial, std::nullopt, 7},
}};

const Transition& transition(Placement from, Placement to) {
  for (const Transition& t : kTransitions)
    if (t.from == from.kind && t.to == to.kind) return t;
  throw Fault("redistribute: no transition from " + to_string(from) + " to " + to_string(to));
}

// Atoms that change in the same way.
struct Change {
  Placement from, to;
  AtomSet atoms = 0;
};

// Atoms slower than all of a set, and those up to its fastest one.
AtomSet slower_than(AtomSet set) {
  return (set & (~set + 1)) - 1;
}
AtomSet up_to(AtomSet set) {
  AtomSet below = 0;
  while (set & ~below) below = below * 2 + 1;
  return below;
}

// How atoms that change alike are cut into sets that one collective can serve.
enum class Cut : uint8_t { fused, axes, atoms };

// Applies the cheapest step that is possible until nothing is left to do.
//
// A dim is cut by its axes like a number by its digits, slowest first, so only the fastest axes of
// a dim can leave it, and an axis can enter it only behind all those that are slower in `to`. An
// axis inside one that changes therefore leaves and enters again:
//
//   a:S(0) b:S(0) -> b:S(0)     all_gather(b), all_gather(a), slice(b)
//   b:S(0) -> a:S(0) b:S(0)     all_gather(b), slice(a), slice(b)
//
// PyTorch does the same (torch/distributed/tensor/_redistribute.py, nested sharding).
class Planner {
 public:
  Planner(const Layout& from, const Layout& to, const Mesh& mesh, AtomSet fuse, Blocks blocks)
      : now_(from), to_(to), mesh_(mesh), fuse_(fuse), blocks_(blocks) {
    for (size_t i = 0; i < from.size(); ++i)
      if (mesh.atoms()[i].size > 1) live_ |= atom_bit(AtomIndex(i));
  }

  std::vector<Step> plan() {
    // Every atom changes at most twice: out of where it is, into where it should be.
    for (size_t budget = 2 * to_.size(); const auto change = next(); --budget) {
      if (budget == 0) throw Fault("redistribute: no way from one layout to another");
      take(*change);
    }
    for (size_t i = 0; i < to_.size(); ++i)
      if (contains(live_, AtomIndex(i)) && now_[AtomIndex(i)] != to_[AtomIndex(i)])
        throw Fault("redistribute: the steps do not lead where they should");
    return std::move(steps_);
  }

 private:
  AtomSet cutting(const Layout& layout, int dim) const { return layout.sharding(dim) & live_; }

  // Experts and their rows may lie in any order where routing says which they are; columns not.
  bool in_order(int dim) const { return blocks_ == Blocks::in_order || dim > 1; }

  // Whether a slower axis of the same dim is still to come or go.
  bool misplaced(AtomIndex a) const {
    const int d = now_[a].dim;
    return now_[a].is_shard() && in_order(d) &&
           ((cutting(now_, d) ^ cutting(to_, d)) & slower_than(atom_bit(a))) != 0;
  }

  std::vector<Change> changes() const {
    std::vector<Change> list;
    for (size_t i = 0; i < now_.size(); ++i) {
      const AtomIndex a(i);
      Placement goal = to_[a];
      if (!contains(live_, a) || (now_[a] == goal && !misplaced(a))) continue;
      if (now_[a] == goal) goal = Placement::R();  // to come back later
      auto it = std::find_if(list.begin(), list.end(),
                             [&](const Change& c) { return c.from == now_[a] && c.to == goal; });
      if (it == list.end()) it = list.insert(list.end(), {now_[a], goal, 0});
      it->atoms |= atom_bit(a);
    }
    std::stable_sort(list.begin(), list.end(), [](const Change& a, const Change& b) {
      return transition(a.from, a.to).order < transition(b.from, b.to).order;
    });
    return list;
  }

  std::optional<Change> next() const {
    const std::vector<Change> list = changes();
    for (const Cut cut : {Cut::fused, Cut::axes, Cut::atoms})
      for (const Change& change : list)
        for (const AtomSet atoms : sets(change, cut))
          if (const Change c{change.from, change.to, atoms}; possible(c)) return c;
    return give_way(list);
  }

  // Axes that wait for each other's dims: the fastest steps aside.
  std::optional<Change> give_way(const std::vector<Change>& list) const {
    std::optional<Change> fastest;
    for (const Change& change : list)
      for (const AtomSet atoms : sets(change, Cut::axes)) {
        const Change c{change.from, Placement::R(), atoms};
        if (change.from.is_shard() && possible(c) && (!fastest || atoms > fastest->atoms))
          fastest = c;
      }
    if (!fastest && !list.empty()) throw Fault("redistribute: stuck between two layouts");
    return fastest;
  }

  bool possible(const Change& c) const {
    const AtomSet slower = slower_than(c.atoms);
    if (c.from.is_shard() && in_order(c.from.dim) &&
        (cutting(now_, c.from.dim) & ~c.atoms & ~slower))
      return false;
    if (!c.to.is_shard() || !in_order(c.to.dim)) return true;
    const AtomSet there = cutting(now_, c.to.dim);
    return !(there & ~slower) && (there | c.atoms) == (cutting(to_, c.to.dim) & up_to(c.atoms));
  }

  // Named axes, or everything that may fuse. Cuts go from slow to fast, all else from fast to slow,
  // so that gathers join neighbours.
  std::vector<AtomSet> sets(const Change& change, Cut cut) const {
    std::vector<AtomSet> list;
    AtomSet rest = change.atoms;
    const auto move = [&](AtomSet part) {
      if (part) list.push_back(part);
      rest &= ~part;
    };
    if (cut == Cut::fused) move(rest & fuse_);
    while (rest) move(cut == Cut::atoms ? rest & (~rest + 1) : widest_axis_in(rest));
    const bool cuts = change.to.is_shard() && !change.from.is_shard();
    std::sort(list.begin(), list.end());
    if (!cuts) std::reverse(list.begin(), list.end());
    return list;
  }

  AtomSet widest_axis_in(AtomSet set) const {
    const Axis* best = nullptr;
    for (const Axis& axis : mesh_.axes())
      if (axis.atoms && (axis.atoms & set) == axis.atoms && (!best || axis.size > best->size))
        best = &axis;
    return best ? best->atoms : set & (~set + 1);
  }

  void take(const Change& c) {
    Step step{transition(c.from, c.to).collective,
              c.atoms,
              c.from.combiner,
              c.from.dim,
              c.to.dim,
              now_,
              {}};
    for (size_t i = 0; i < now_.size(); ++i)
      if (contains(c.atoms, AtomIndex(i))) now_[AtomIndex(i)] = c.to;
    step.after = now_;
    steps_.push_back(std::move(step));
  }

  Layout now_;
  const Layout& to_;
  const Mesh& mesh_;
  const AtomSet fuse_;
  const Blocks blocks_;
  AtomSet live_ = 0;  // axes of one rank change nothing
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> plan_redistribution(const Layout& from, const Layout& to, const Mesh& mesh,
                                      AtomSet fuse, Blocks blocks) {
  if (from == to) return {};
  return Planner(from, to, mesh, fuse, blocks).plan();
}

std::string to_string(const Step& step) {
  for (size_t i = 0; i < step.before.size(); ++i) {
    const AtomIndex a(i);
    if (!contains(step.atoms, a)) continue;
    return to_string(step.before[a]) + " -> " + to_string(step.after[a]) + " is " +
           (step.collective ? std::string(info(*step.collective).name) : "local");
  }
  return "";
}

Count step_elements(Collective op, Count before, Count after) {
  return op == Collective::reduce_scatter ? after : before;
}

}  // namespace s2t
