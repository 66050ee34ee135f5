#include "runtime/run/parameters.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "runtime/run/leaves.h"
#include "runtime/run/shard.h"

namespace s2t {

Parameters::Parameters(const Graph& graph, Exchange& exchange, std::map<TensorId, Tensor> local)
    : graph_(graph), exchange_(exchange), local_(std::move(local)) {
  for (const auto& [p, t] : local_) shapes_[p] = t.shape();
  if (graph.sync.kind != SyncKind::fsdp && graph.sync.kind != SyncKind::zero3) return;
  find_units();
  for (const Unit& u : units_)
    if (!u.root && graph.sync.kind == SyncKind::fsdp && graph.sync.units[u.number].dim > 0)
      for (const TensorId p : u.members)
        row_dims_[p] = static_cast<int>(graph.sync.units[u.number].dim);
  for (auto& [p, t] : local_) {
    const bool small = graph.sync.kind == SyncKind::zero3 &&
                       static_cast<int64_t>(elements(stored(p))) <= graph.sync.persistent_elements;
    if (shards_over(p) && !small) parts_[p] = my_rows(p, t);
  }
  for (const auto& [p, part] : parts_) local_.erase(p);
}

Shape Parameters::stored(TensorId p) const {
  return local_shape(graph_.value(p).shape, graph_.value(p).layout, graph_.mesh);
}

Shape Parameters::as_rows(const Shape& shape) const {
  if (graph_.sync.kind == SyncKind::zero3) return {static_cast<int64_t>(elements(shape))};
  return shape.empty() ? Shape{1} : shape;  // a scalar is one row
}

Tensor Parameters::my_rows(TensorId p, const Tensor& whole) const {
  const AtomSet atoms = shards_over(p);
  const int64_t n = graph_.mesh.size(atoms), each = rows_per_rank(p, n);
  const Tensor rows = resized(whole, stored(p)).reshaped(as_rows(stored(p)));
  Shape padded = rows.shape();
  padded[static_cast<size_t>(row_dim(p))] = each * n;
  const int64_t mine = graph_.mesh.coordinate(exchange_.rank(), atoms);
  return slice(resized(rows, padded), row_dim(p), mine * each, each);
}

const Tensor& Parameters::whole(TensorId p) const {
  const auto it = local_.find(p);
  if (it == local_.end()) throw Fault(graph_.value(p).name + " is used before it was gathered");
  return it->second;
}

int Parameters::row_dim(TensorId p) const {
  const auto it = row_dims_.find(p);
  return it == row_dims_.end() ? 0 : it->second;
}

int64_t Parameters::rows_per_rank(TensorId p, int64_t n) const {
  return (as_rows(stored(p))[static_cast<size_t>(row_dim(p))] + n - 1) / n;
}

AtomSet Parameters::shards_over(TensorId p) const {
  AtomSet atoms = 0;
  const AtomSet allowed = synchronised_over(graph_, p);
  for (size_t a = 0; a < graph_.atoms(); ++a)
    if (contains(allowed & ~copies(graph_), AtomIndex(a)) &&
        graph_.value(p).layout[AtomIndex(a)].is_replicate())
      atoms |= atom_bit(AtomIndex(a));
  return atoms;
}

void Parameters::find_units() {
  std::set<std::string> named;
  for (const ShardedUnitDecl& u : graph_.sync.units)
    named.insert(u.parameters.begin(), u.parameters.end());
  std::vector<std::string> rest;
  for (const Value& v : graph_.values)
    if (v.parameter && !named.count(v.name)) rest.push_back(v.name);
  for (int stage = 0; stage < graph_.stages; ++stage) {
    for (size_t u = 0; u < graph_.sync.units.size(); ++u)
      add_unit(graph_.sync.units[u].parameters, stage, u);
    add_unit(rest, stage, graph_.sync.units.size());
  }
  std::stable_sort(units_.begin(), units_.end(), [](const Unit& a, const Unit& b) {
    return std::tuple(a.stage, !a.root, a.first, -a.last.value) <
           std::tuple(b.stage, !b.root, b.first, -b.last.value);
  });
}

// A unit runs from the first to the last op that reads one of its parameters; a module, or a whole
// stage, from its first op to its last. Under ZeRO 3 the module only says which readers are meant.
void Parameters::add_unit(const std::vector<std::string>& names, int stage, size_t number) {
  const bool root = number == graph_.sync.units.size();
  const bool readers = graph_.sync.kind == SyncKind::zero3;
  const std::string module = root ? "" : graph_.sync.units[number].module;
  const auto in_module = [&](OpId op) {
    return (graph_.op(op).module + '.').rfind(module + '.', 0) == 0;
  };
  Unit unit{{}, {}, {}, stage, root, number};
  const auto span = [&](OpId op) {
    if (!unit.first.valid() || op < unit.first) unit.first = op;
    if (!unit.last.valid() || op > unit.last) unit.last = op;
  };
  for (const auto& [p, shape] : shapes_) {
    if (std::find(names.begin(), names.end(), graph_.value(p).name) == names.end()) continue;
    bool here = false;
    for (const Use& use : graph_.value(p).uses)
      if (graph_.op(use.op).stage == stage && (!readers || module.empty() || in_module(use.op))) {
        here = true;
        span(use.op);
      }
    if (here) unit.members.push_back(p);
  }
  if (unit.members.empty()) return;
  for (size_t o = 0; (root || (!readers && !module.empty())) && o < graph_.ops.size(); ++o)
    if (graph_.ops[o].stage == stage && (root || in_module(OpId(o)))) span(OpId(o));
  if (!root && module.empty() && graph_.sync.kind == SyncKind::fsdp &&
      graph_.value(unit.members[0]).expert)
    for (const OpId op : exchanges_around(unit.first)) span(op);
  units_.push_back(std::move(unit));
}

// torchtitan sends rows to experts and back in hooks of their module, inside FSDP's own: ops of the
// same module that handle routed rows.
std::vector<OpId> Parameters::exchanges_around(OpId expert) const {
  std::vector<OpId> ops;
  for (size_t o = 0; o < graph_.ops.size(); ++o) {
    const Op& op = graph_.ops[o];
    if (op.stage != graph_.op(expert).stage || op.module != graph_.op(expert).module) continue;
    bool rows = false;
    for (const auto* side : {&op.inputs, &op.outputs})
      for (const TensorId t : *side) rows = rows || graph_.value(t).routing;
    if (rows) ops.push_back(OpId(o));
  }
  return ops;
}

void Parameters::gather(const Unit& unit, const Tag& tag) {
  std::map<std::tuple<AtomSet, DType, bool>, std::vector<TensorId>> groups;
  for (const TensorId p : unit.members)
    if (sharded(p))
      groups[{shards_over(p), graph_.value(p).dtype,
              graph_.sync.kind != SyncKind::fsdp && graph_.value(p).expert}]
          .push_back(p);
  for (const auto& [key, members] : groups) gather_together(members, tag);
}

// All over the same ranks and of one type.
void Parameters::gather_together(const std::vector<TensorId>& members, const Tag& tag) {
  const AtomSet atoms = shards_over(members[0]);
  const int64_t n = graph_.mesh.size(atoms);
  std::vector<const Tensor*> parts;
  Tag named = tag;
  for (const TensorId p : members) {
    parts.push_back(&parts_.at(p));
    named.members.push_back(graph_.value(p).name);
  }
  named.tensor = named.members[0];
  const Family family = family_over(graph_, atoms, graph_.value(members[0]).expert);
  const Tensor all = exchange_.all_gather(flattened(parts), family, named);
  const int64_t each = all.size() / n;
  int64_t at = 0;
  for (const TensorId p : members) {
    const Tensor& part = parts_.at(p);
    Shape padded = part.shape();
    const int dim = row_dim(p);
    const int64_t rows = part.shape()[static_cast<size_t>(dim)];
    padded[static_cast<size_t>(dim)] *= n;
    Tensor whole(padded, part.dtype());
    for (int64_t r = 0; r < n; ++r)
      paste(whole, slice(all, 0, r * each + at, part.size()).reshaped(part.shape()), dim, r * rows);
    const Tensor kept = resized(whole, as_rows(stored(p))).reshaped(stored(p));
    local_[p] = resized(kept, shapes_.at(p));
    at += part.size();
  }
}

void Parameters::exchange_rows(const std::vector<TensorId>& members, const Tag& tag) {
  for (const TensorId p : members) parts_[p] = my_rows(p, local_.at(p));
  Tag fresh = tag;
  fresh.members.clear();
  gather_together(members, fresh);
  for (const TensorId p : members) parts_.erase(p);
}

bool Parameters::gathered(const Unit& unit) const {
  return std::all_of(unit.members.begin(), unit.members.end(),
                     [&](TensorId p) { return local_.count(p) != 0; });
}

void Parameters::release(const Unit& unit) {
  for (const TensorId p : unit.members)
    if (sharded(p)) local_.erase(p);
}

Tensor Parameters::current(TensorId p) const {
  if (!sharded(p)) return resized(local_.at(p), stored(p));
  const Tensor& part = parts_.at(p);
  const int64_t n = graph_.mesh.size(shards_over(p));
  Shape padded = part.shape();
  const int dim = row_dim(p);
  const int64_t rows = part.shape()[static_cast<size_t>(dim)];
  padded[static_cast<size_t>(dim)] *= n;
  Tensor whole(padded, part.dtype());
  paste(whole, part, dim, graph_.mesh.coordinate(exchange_.rank(), shards_over(p)) * rows);
  return resized(whole, as_rows(stored(p))).reshaped(stored(p));
}

}  // namespace s2t
