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

std::vector<Change> changes(const Layout& from, const Layout& to, const Mesh& mesh) {
  std::vector<Change> list;
  for (size_t i = 0; i < from.size(); ++i) {
    const AtomIndex a(i);
    if (from[a] == to[a] || mesh.atom(a).size == 1) continue;
    auto it = std::find_if(list.begin(), list.end(),
                           [&](const Change& c) { return c.from == from[a] && c.to == to[a]; });
    if (it == list.end()) it = list.insert(list.end(), {from[a], to[a], 0});
    it->atoms |= atom_bit(a);
  }
  return list;
}

// Cuts a set of atoms into sets that one collective can serve: a whole named axis, or everything
// that may fuse. Innermost (fastest) first, so that gathers concatenate neighbours.
std::vector<AtomSet> one_call_sets(AtomSet set, const Mesh& mesh, AtomSet fuse) {
  std::vector<AtomSet> sets;
  if (const AtomSet fused = set & fuse; fused) {
    sets.push_back(fused);
    set &= ~fused;
  }
  while (set) {
    const Axis* best = nullptr;
    for (const Axis& axis : mesh.axes())
      if (axis.atoms && (axis.atoms & set) == axis.atoms && (!best || axis.size > best->size))
        best = &axis;
    const AtomSet part = best ? best->atoms : set & (~set + 1);
    sets.push_back(part);
    set &= ~part;
  }
  std::sort(sets.begin(), sets.end(), std::greater<>());
  return sets;
}

}  // namespace

std::vector<Step> plan_redistribution(const Layout& from, const Layout& to, const Mesh& mesh,
                                      AtomSet fuse) {
  std::vector<Change> todo = changes(from, to, mesh);
  std::stable_sort(todo.begin(), todo.end(), [](const Change& a, const Change& b) {
    return transition(a.from, a.to).order < transition(b.from, b.to).order;
  });
  std::vector<Step> steps;
  Layout now = from;
  for (const Change& change : todo)
    for (const AtomSet atoms : one_call_sets(change.atoms, mesh, fuse)) {
      Step step{transition(change.from, change.to).collective,
                atoms,
                change.from.combiner,
                change.from.dim,
                change.to.dim,
                now,
                {}};
      for (size_t i = 0; i < now.size(); ++i)
        if (contains(atoms, AtomIndex(i))) now[AtomIndex(i)] = change.to;
      step.after = now;
      steps.push_back(std::move(step));
    }
  return steps;
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
