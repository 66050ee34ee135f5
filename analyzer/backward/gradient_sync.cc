#include "analyzer/backward/gradient_sync.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/backward/sharding_units.h"
#include "analyzer/base/text.h"

namespace s2t {
namespace {

// One parameter on one stage, with the gradient that arrived there.
struct Leaf {
  TensorId parameter;
  int stage = 0;
  Layout gradient;
  Layout wanted;      // the parameter's own layout
  AtomSet data = 0;   // reduced by this layer, partial here
  AtomSet model = 0;  // model axes of the global convention, partial here
  OpId ready;         // op after whose backward it is complete
  DType dtype = DType::f32;
  Shape local;  // of the gradient on one rank
};

Shape flat(Count n) {
  return {static_cast<int64_t>(n)};
}

class SyncPlanner {
 public:
  SyncPlanner(const Graph& graph, const Backward& backward)
      : graph_(graph), backward_(backward), decl_(graph.sync) {}

  Sync plan() {
    collect();
    switch (decl_.kind) {
      case SyncKind::none:
        break;
      case SyncKind::per_parameter:
        for (const Leaf& leaf : leaves_) reduce_alone(leaf);
        break;
      case SyncKind::bucketed:
        for (const Bucket& b : buckets()) reduce(b, Collective::all_reduce);
        break;
      case SyncKind::zero1:
      case SyncKind::zero2:
        for (const Bucket& b : buckets()) reduce(b, Collective::reduce_scatter);
        break;
      case SyncKind::fsdp:
        shard_fully();
        break;
    }
    reduce_on_model_axes();
    reduce_tied();
    if (decl_.kind == SyncKind::zero1 || decl_.kind == SyncKind::zero2)
      for (const Bucket& b : buckets()) update(b);
    remark();
    return std::move(out_);
  }

 private:
  // --- what has to be reduced
  // ----------------------------------------------------------------------

  void collect() {
    for (const TensorId p : parameters_of(graph_))
      for (const Contribution& arrived : backward_.leaf_gradients[p.at()])
        for (const int stage : stages_of(graph_, p))
          if (first_source({arrived}, stage).valid())
            leaves_.push_back(leaf_of(p, stage, arrived.layout));
  }

  // The last op of a stage whose backward adds to a gradient: the first in forward order.
  OpId first_source(const std::vector<Contribution>& arrived, int stage) const {
    OpId first;
    for (const Contribution& c : arrived)
      for (const OpId op : c.sources)
        if (graph_.op(op).stage == stage && (!first.valid() || op < first)) first = op;
    return first;
  }

  Leaf leaf_of(TensorId p, int stage, const Layout& gradient) const {
    const Value& v = graph_.value(p);
    Leaf leaf{p,
              stage,
              gradient,
              v.layout,
              0,
              0,
              {},
              decl_.dtype.value_or(v.dtype),
              local_shape(v.shape, v.layout, graph_.mesh)};
    const AtomSet allowed = sync_atoms(graph_, p);
    for (size_t i = 0; i < graph_.atoms(); ++i) {
      const AtomIndex a(i);
      if (!gradient[a].is_partial() || graph_.mesh.atom(a).size == 1) continue;
      if (contains(allowed, a))
        leaf.data |= atom_bit(a);
      else if (!graph_.per_rank[i])
        leaf.model |= atom_bit(a);
    }
    leaf.ready = first_source(backward_.leaf_gradients[p.at()], stage);
    return leaf;
  }

  // --- one call each -----------------------------------------------------------------------------

  SyncCall call_for(const Leaf& leaf, SyncCall::Purpose purpose, Collective op,
                    AtomSet atoms) const {
    SyncCall call;
    call.purpose = purpose;
    call.collective = op;
    call.atoms = atoms;
    call.expert = graph_.value(leaf.parameter).expert;
    call.members = {leaf.parameter};
    call.dtype = leaf.dtype;
    call.stage = leaf.stage;
    call.from = leaf.gradient;
    call.to = leaf.gradient;
    for (size_t i = 0; i < graph_.atoms(); ++i)
      if (contains(atoms, AtomIndex(i))) call.to[AtomIndex(i)] = leaf.wanted[AtomIndex(i)];
    call.when = every_microbatch() ? SyncCall::When::every : SyncCall::When::last;
    if (purpose == SyncCall::Purpose::data && decl_.mean) call.divisor = divisor();
    return call;
  }

  // Experts too are divided by the full data-parallel size: each saw the tokens of every source. An
  // axis of another kind that the model names averages nothing.
  int64_t divisor() const {
    AtomSet atoms = 0;
    for (const std::string& name : decl_.axes)
      if (const Axis* axis = graph_.mesh.find(name)) atoms |= axis->atoms;
    return graph_.mesh.size(decl_.axes.empty() ? graph_.data_atoms : atoms & graph_.data_atoms);
  }

  bool every_microbatch() const {
    return decl_.every_microbatch.value_or(decl_.kind == SyncKind::zero2 ||
                                           decl_.kind == SyncKind::fsdp);
  }

  void reduce_alone(const Leaf& leaf) {
    if (!leaf.data) return;
    SyncCall call = call_for(leaf, SyncCall::Purpose::data, Collective::all_reduce, leaf.data);
    call.elements = elements(leaf.local);
    call.shape = leaf.local;
    if (overlap(false) || every_microbatch()) place_after(call, leaf.ready);
    out_.calls.push_back(std::move(call));
  }

  bool overlap(bool fallback) const { return decl_.overlap.value_or(fallback); }

  static void place_after(SyncCall& call, OpId op) {
    call.where = SyncCall::Where::after_backward_op;
    call.op = op;
  }

  // --- buckets -----------------------------------------------------------------------------------

  struct Bucket {
    std::vector<Leaf> leaves;
    Count elements = 0;
  };

  // Gradient-ready order; a bucket closes when it reaches its limit after a parameter was added.
  std::vector<Bucket> buckets() const {
    std::vector<const Leaf*> ready;
    for (const Leaf& leaf : leaves_)
      if (leaf.data) ready.push_back(&leaf);
    std::stable_sort(ready.begin(), ready.end(),
                     [](const Leaf* a, const Leaf* b) { return a->ready > b->ready; });
    using Kind = std::tuple<int, AtomSet, DType>;  // never mixed in one bucket
    std::map<Kind, Bucket> open;
    std::map<Kind, size_t> closed_count;
    std::vector<Bucket> closed;
    for (const Leaf* leaf : ready) {
      const Kind kind{leaf->stage, leaf->data, leaf->dtype};
      Bucket& b = open[kind];
      b.elements += elements(leaf->local);
      b.leaves.push_back(*leaf);
      if (b.elements * size_of(leaf->dtype) < limit(closed_count[kind])) continue;
      ++closed_count[kind];
      closed.push_back(std::move(b));
      open.erase(kind);
    }
    std::vector<Bucket> rest;
    for (auto& [kind, b] : open) rest.push_back(std::move(b));
    std::stable_sort(rest.begin(), rest.end(), [](const Bucket& a, const Bucket& b) {
      return a.leaves.back().ready > b.leaves.back().ready;
    });
    closed.insert(closed.end(), rest.begin(), rest.end());
    return closed;
  }

  Count limit(size_t already_closed) const {
    const bool ddp = decl_.kind == SyncKind::bucketed;
    if (ddp && decl_.first_iteration) return UINT64_MAX;
    const auto later = decl_.bucket_bytes;
    const auto first = decl_.first_bucket_bytes ? decl_.first_bucket_bytes : later;
    if (already_closed == 0) return static_cast<Count>(first.value_or(ddp ? 1 << 20 : INT64_MAX));
    return static_cast<Count>(later.value_or(ddp ? 25 << 20 : INT64_MAX));
  }

  void reduce(const Bucket& b, Collective op) {
    SyncCall call = call_for(b.leaves.front(), SyncCall::Purpose::data, op, b.leaves.front().data);
    fill(call, b, op);
    const bool in_backward = decl_.kind == SyncKind::bucketed || decl_.kind == SyncKind::zero2;
    if (overlap(in_backward) || every_microbatch()) place_after(call, b.leaves.back().ready);
    out_.calls.push_back(std::move(call));
  }

  void fill(SyncCall& call, const Bucket& b, Collective op) const {
    call.members.clear();
    for (const Leaf& leaf : b.leaves) call.members.push_back(leaf.parameter);
    const auto n = static_cast<Count>(graph_.mesh.size(call.atoms));
    const Count shard = ceil_div(b.elements, n);  // the flat bucket is padded to n equal parts
    call.elements = op == Collective::all_reduce ? b.elements : shard;
    call.shape = flat(op == Collective::all_gather       ? shard
                      : op == Collective::reduce_scatter ? shard * n
                                                         : b.elements);
    if (b.leaves.size() == 1 && op == Collective::all_reduce) call.shape = b.leaves[0].local;
  }

  // The optimizer updated its part of the parameters: everybody gets all of them.
  void update(const Bucket& b) {
    SyncCall call = call_for(b.leaves.front(), SyncCall::Purpose::update, Collective::all_gather,
                             b.leaves.front().data);
    call.dtype = graph_.value(b.leaves.front().parameter).dtype;
    call.when = SyncCall::When::last;
    fill(call, b, Collective::all_gather);
    out_.calls.push_back(std::move(call));
  }

  // --- fully sharded -----------------------------------------------------------------------------

  // Elements of one rank's part: every parameter is padded on dim 0 to a multiple of the group.
  Count part(const std::vector<TensorId>& members, AtomSet atoms) const {
    Count total = 0;
    for (const TensorId p : members) {
      Shape local = local_shape(graph_.value(p).shape, graph_.value(p).layout, graph_.mesh);
      if (local.empty()) local = {1};
      local[0] = static_cast<int64_t>(
          ceil_div(static_cast<Count>(local[0]), static_cast<Count>(graph_.mesh.size(atoms))));
      total = checked_add(total, elements(local));
    }
    return total;
  }

  void shard_fully() {
    const std::vector<ShardingUnit> all = sharding_units(graph_);
    for (const ShardingUnit& u : all) gather(u, SyncCall::Where::before_forward_op, u.first);
    std::vector<ShardingUnit> reversed(all.rbegin(), all.rend());
    std::stable_sort(reversed.begin(), reversed.end(),
                     [](const ShardingUnit& a, const ShardingUnit& b) {
                       return std::tuple(-a.stage, a.root, -a.last.value) <
                              std::tuple(-b.stage, b.root, -b.last.value);
                     });
    std::vector<ShardingUnit> again;  // gathered in the backward, in that order
    for (const ShardingUnit& u : reversed)
      if (decl_.reshard_after_forward && !u.root) again.push_back(u);
    for (size_t i = 0; i < again.size(); ++i) {
      // Each unit's gather is issued one unit early, right behind its predecessor's.
      const ShardingUnit& before = again[i > 0 && again[i - 1].stage == again[i].stage ? i - 1 : i];
      const OpId anchor = first_backward_op(before, backward_);
      if (anchor.valid()) gather(again[i], SyncCall::Where::before_backward_op, anchor);
    }
    for (const ShardingUnit& u : reversed) scatter(u);
  }

  void gather(const ShardingUnit& u, SyncCall::Where where, OpId anchor) {
    for (const auto& [key, members] : by_family(u)) {
      SyncCall call;
      call.purpose = SyncCall::Purpose::gather;
      call.where = where;
      call.op = anchor;
      call.when = SyncCall::When::every;
      call.collective = Collective::all_gather;
      call.atoms = key.first;
      call.expert = graph_.value(members[0]).expert;
      call.members = members;
      call.dtype = key.second;
      call.elements = part(members, call.atoms);
      call.shape = flat(call.elements);
      call.stage = u.stage;
      call.to = call.from = graph_.value(members[0]).layout;
      for (size_t i = 0; i < graph_.atoms(); ++i)
        if (contains(call.atoms, AtomIndex(i))) call.from[AtomIndex(i)] = Placement::S(0);
      out_.calls.push_back(std::move(call));
    }
  }

  using FamilyKey = std::pair<AtomSet, DType>;
  std::map<FamilyKey, std::vector<TensorId>> by_family(const ShardingUnit& u) const {
    std::map<FamilyKey, std::vector<TensorId>> groups;
    for (const TensorId p : u.members) {
      AtomSet atoms = 0;
      for (size_t i = 0; i < graph_.atoms(); ++i)
        if (contains(sync_atoms(graph_, p), AtomIndex(i)) && graph_.mesh.atoms()[i].size > 1 &&
            graph_.value(p).layout[AtomIndex(i)].is_replicate())
          atoms |= atom_bit(AtomIndex(i));
      if (atoms) groups[{atoms, graph_.value(p).dtype}].push_back(p);
    }
    return groups;
  }

  void scatter(const ShardingUnit& u) {
    std::map<FamilyKey, std::vector<const Leaf*>> groups;
    for (const Leaf& leaf : leaves_)
      if (leaf.stage == u.stage && leaf.data &&
          std::find(u.members.begin(), u.members.end(), leaf.parameter) != u.members.end())
        groups[{leaf.data, leaf.dtype}].push_back(&leaf);
    for (const auto& [key, leaves] : groups) {
      SyncCall call =
          call_for(*leaves[0], SyncCall::Purpose::data, Collective::reduce_scatter, key.first);
      for (size_t i = 0; i < graph_.atoms(); ++i)
        if (contains(key.first, AtomIndex(i))) call.to[AtomIndex(i)] = Placement::S(0);
      call.members.clear();
      for (const Leaf* leaf : leaves) call.members.push_back(leaf->parameter);
      call.elements = part(call.members, key.first);
      call.shape = flat(call.elements * static_cast<Count>(graph_.mesh.size(key.first)));
      place_after(call, last_backward_op(u, backward_));
      out_.calls.push_back(std::move(call));
    }
  }

  // --- model axes and tied parameters ------------------------------------------------------------

  void reduce_on_model_axes() {
    std::map<std::tuple<int, AtomSet, DType>, std::vector<Leaf>> groups;
    for (const Leaf& leaf : leaves_)
      if (leaf.model) groups[{leaf.stage, leaf.model, leaf.dtype}].push_back(leaf);
    for (const auto& [key, leaves] : groups) {
      if (graph_.switches.coalesce_model_sync) {
        model_call(leaves);
      } else {
        for (const Leaf& leaf : leaves) model_call({leaf});
      }
    }
  }

  void model_call(const std::vector<Leaf>& leaves) {
    SyncCall call =
        call_for(leaves[0], SyncCall::Purpose::model, Collective::all_reduce, leaves[0].model);
    call.when = SyncCall::When::last;
    call.members.clear();
    Bucket b{leaves, 0};
    for (const Leaf& leaf : leaves) b.elements += elements(leaf.local);
    fill(call, b, Collective::all_reduce);
    out_.calls.push_back(std::move(call));
  }

  void reduce_tied() {
    const auto atom = graph_.mesh.pipeline_atom();
    std::set<TensorId> done;
    for (const Leaf& leaf : leaves_) {
      std::set<int64_t> ranks;
      for (const int stage : stages_of(graph_, leaf.parameter))
        ranks.insert(atom ? stage % graph_.mesh.atom(*atom).size : 0);
      if (ranks.size() < 2 || !done.insert(leaf.parameter).second) continue;
      SyncCall call =
          call_for(leaf, SyncCall::Purpose::tied, Collective::all_reduce, atom_bit(*atom));
      call.when = SyncCall::When::last;
      call.pipeline_members.assign(ranks.begin(), ranks.end());
      call.elements = elements(leaf.local);
      call.shape = leaf.local;
      out_.calls.push_back(std::move(call));
    }
  }

  // --- remarks -----------------------------------------------------------------------------------

  void remark() {
    remark_stated_axes();
    remark_unused();
    std::map<AtomSet, std::vector<std::string>> stay;  // parameters, by what is never reduced
    for (const Leaf& leaf : leaves_) {
      const AtomSet reduced = decl_.kind == SyncKind::none ? leaf.model : leaf.data | leaf.model;
      const AtomSet left = leaf.gradient.partial() & ~reduced;
      if (left) stay[left].push_back(graph_.value(leaf.parameter).name);
    }
    for (const auto& [left, names] : stay) {
      const bool data = (left & graph_.data_atoms) == left;
      out_.remarks.push_back({data ? "unsynchronised-gradient" : "partial-gradient",
                              fmt::format("the gradient of {}{} stays a partial sum over {}: {}",
                                          quoted(names.front()), and_more(" and", names.size()),
                                          graph_.mesh.family_of(left).name,
                                          data ? "no gradient synchronisation reduces over it"
                                               : "under per_rank nothing reduces it")});
    }
  }

  // Frameworks differ in what they do about a parameter that no gradient reaches.
  void remark_unused() {
    if (!graph_.loss.valid()) return;
    std::vector<std::string> unused;
    for (const TensorId p : parameters_of(graph_))
      if (graph_.value(p).requires_grad && backward_.leaf_gradients[p.at()].empty())
        unused.push_back(graph_.value(p).name);
    if (unused.empty()) return;
    out_.remarks.push_back(
        {"unused-parameter",
         fmt::format("no gradient reaches {}{}: nothing is sent for it here, where PyTorch's DDP "
                     "stops with an error unless it is told to find unused parameters",
                     quoted(unused.front()), and_more(" and", unused.size()))});
  }

  // An axis that is named for synchronisation although no gradient may be summed over it.
  void remark_stated_axes() {
    for (const std::string& name : decl_.axes) {
      const Axis* axis = graph_.mesh.find(name);
      if (!axis || axis->size == 1) continue;
      std::vector<const Leaf*> sharded;
      bool reduced = false;
      for (const Leaf& leaf : leaves_) {
        reduced |= (leaf.data & axis->atoms) != 0;
        if (cut_over(leaf, axis->atoms)) sharded.push_back(&leaf);
      }
      if (sharded.empty() || (reduced && axis->kind == AxisKind::data)) continue;
      out_.remarks.push_back(
          {axis->kind == AxisKind::data ? "expert-in-dense-group" : "shard-in-sync-group",
           fmt::format("gradient_sync names {}, but its ranks hold different parts of {}{}: their "
                       "gradients are different tensors and are not summed over it",
                       name, quoted(graph_.value(sharded.front()->parameter).name),
                       and_more(" and", sharded.size()))});
    }
  }

  bool cut_over(const Leaf& leaf, AtomSet atoms) const {
    for (size_t i = 0; i < graph_.atoms(); ++i)
      if (contains(atoms, AtomIndex(i)) && leaf.wanted[AtomIndex(i)].is_shard()) return true;
    return false;
  }

  const Graph& graph_;
  const Backward& backward_;
  const GradientSyncDecl& decl_;
  std::vector<Leaf> leaves_;
  Sync out_;
};

}  // namespace

Sync plan_gradient_sync(const Graph& graph, const Backward& backward) {
  return SyncPlanner(graph, backward).plan();
}

std::vector<TensorId> parameters_of(const Graph& graph) {
  std::vector<TensorId> list;
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].parameter) list.push_back(TensorId(v));
  return list;
}

std::vector<int> stages_of(const Graph& graph, TensorId parameter) {
  std::vector<int> stages;
  for (const Use& use : graph.value(parameter).uses) stages.push_back(graph.op(use.op).stage);
  std::sort(stages.begin(), stages.end());
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  return stages;
}

AtomSet sync_atoms(const Graph& graph, TensorId parameter) {
  AtomSet atoms = 0;
  if (graph.value(parameter).expert) {
    for (const Axis& axis : graph.mesh.axes())
      if (axis.expert && axis.kind == AxisKind::data) atoms |= axis.atoms;
    return atoms;
  }
  if (graph.sync.axes.empty()) return graph.data_atoms;
  for (const std::string& name : graph.sync.axes)
    if (const Axis* axis = graph.mesh.find(name)) atoms |= axis->atoms;
  return atoms;
}

}  // namespace s2t
