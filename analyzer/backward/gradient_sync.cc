#include "analyzer/backward/gradient_sync.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "analyzer/backward/buckets.h"
#include "analyzer/backward/first_uses.h"
#include "analyzer/backward/sharding_units.h"
#include "analyzer/backward/sync_remarks.h"
#include "analyzer/backward/tied_leaves.h"
#include "analyzer/backward/unit_gathers.h"
#include "analyzer/base/text.h"
#include "analyzer/graph/sync_defaults.h"

namespace s2t {
namespace {

Shape flat(Count n) {
  return {static_cast<int64_t>(n)};
}

class SyncPlanner {
 public:
  SyncPlanner(const Graph& graph, const Backward& backward)
      : graph_(graph),
        backward_(backward),
        decl_(graph.sync),
        leaves_(gradient_leaves(graph, backward)) {
    for (const ShardedUnitDecl& unit : decl_.units)
      for (const std::string& name : unit.parameters)
        if (unit.dim > 0) cut_dims_[name] = static_cast<int>(unit.dim);
  }

  Sync plan() {
    if (decl_.tied_first) reduce_tied();
    switch (decl_.kind) {
      case SyncKind::none:
        break;
      case SyncKind::per_parameter:
        for (const GradientLeaf& leaf : leaves_) reduce_alone(leaf);
        break;
      case SyncKind::bucketed:
        for (const Bucket& b : cut_into_buckets(graph_, leaves_)) reduce(b, Collective::all_reduce);
        break;
      case SyncKind::zero1:
      case SyncKind::zero2:
        for (const Bucket& b : cut_into_buckets(graph_, leaves_))
          reduce(b, decl_.whole_gradients ? Collective::all_reduce : Collective::reduce_scatter);
        break;
      case SyncKind::zero3:
        gather_units(sharding_units(graph_));
        for (const Bucket& b : cut_into_buckets(graph_, leaves_))
          reduce(b, Collective::reduce_scatter);
        break;
      case SyncKind::fsdp:
        shard_fully();
        break;
    }
    reduce_on_model_axes();
    if (!decl_.tied_first) reduce_tied();
    update_parameters();
    out_.remarks = remarks_on_sync(graph_, backward_, leaves_);
    return std::move(out_);
  }

 private:
  // --- one call each -----------------------------------------------------------------------------

  SyncCall call_for(const GradientLeaf& leaf, SyncCall::Purpose purpose, Collective op,
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
    call.when = every_microbatch(decl_) ? SyncCall::When::every : SyncCall::When::last;
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

  bool fully_sharded() const { return decl_.kind == SyncKind::fsdp; }

  OpId end_of_backward(int stage) const {
    OpId last;
    for (const BackwardStep& step : backward_.steps)
      if (step.kind == BackwardStep::Kind::op && graph_.op(step.op).stage == stage) last = step.op;
    return last;
  }

  void reduce_alone(const GradientLeaf& leaf) {
    if (!leaf.data) return;
    SyncCall call = call_for(leaf, SyncCall::Purpose::data, Collective::all_reduce, leaf.data);
    call.elements = elements(leaf.local);
    call.shape = leaf.local;
    if (in_backward(decl_)) place_after(call, leaf.ready);
    out_.calls.push_back(std::move(call));
  }

  static void place_after(SyncCall& call, OpId op) {
    call.where = SyncCall::Where::after_backward_op;
    call.op = op;
  }

  // --- buckets -----------------------------------------------------------------------------------

  void reduce(const Bucket& b, Collective op) {
    SyncCall call = call_for(b.leaves.front(), SyncCall::Purpose::data, op, b.leaves.front().data);
    fill(call, b, op);
    if (in_backward(decl_))
      place_after(call, b.sent.valid() ? b.sent : end_of_backward(call.stage));
    if (!decl_.whole_gradients || op != Collective::all_reduce) {
      out_.calls.push_back(std::move(call));
      return;
    }
    for (const Count n : whole_calls(decl_, b, leaves_, graph_.mesh.size(call.atoms))) {
      if (n != call.elements) call.shape = flat(n);
      call.elements = n;
      out_.calls.push_back(call);
    }
  }

  void fill(SyncCall& call, const Bucket& b, Collective op) const {
    call.members.clear();
    for (const GradientLeaf& leaf : b.leaves) call.members.push_back(leaf.parameter);
    const auto n = static_cast<Count>(graph_.mesh.size(call.atoms));
    // The flat bucket is padded to n equal parts; or each gradient of it.
    const Count multiple = std::lcm(n, static_cast<Count>(decl_.bucket_multiple));
    const Count shard = decl_.kind == SyncKind::zero3
                            ? part(call.members, call.atoms)
                            : ceil_div(b.elements, multiple) * multiple / n;
    call.elements = op == Collective::all_reduce ? b.elements : shard;
    call.shape = flat(op == Collective::all_gather       ? shard
                      : op == Collective::reduce_scatter ? shard * n
                                                         : b.elements);
    if (b.leaves.size() == 1 && b.elements == elements(b.leaves[0].local) &&
        op == Collective::all_reduce)
      call.shape = b.leaves[0].local;
  }

  // The optimizer updated its part of the parameters: everybody gets all of them.
  void update_parameters() {
    if (decl_.kind == SyncKind::zero3) return update_persistent();
    if (decl_.kind != SyncKind::zero1 && decl_.kind != SyncKind::zero2) return;
    if (decl_.update_alignment > 0) return update_at_once();
    const std::vector<Bucket> buckets = cut_into_buckets(graph_, leaves_);
    if (decl_.gather_before_use) return gather_before_use(buckets);
    for (int64_t round = 0; round < decl_.update_rounds; ++round)
      for (const Bucket& b : buckets) out_.calls.push_back(bucket_update(b));
  }

  SyncCall bucket_update(const Bucket& b) const {
    SyncCall call = update_call(b.leaves.front());
    fill(call, b, Collective::all_gather);
    return call;
  }

  void gather_before_use(const std::vector<Bucket>& buckets) {
    for (const FirstUse& use : first_uses(graph_, buckets)) {
      SyncCall call = bucket_update(buckets[use.bucket]);
      call.where = SyncCall::Where::before_forward_op;
      call.op = use.op;
      call.when = SyncCall::When::first;
      out_.calls.push_back(std::move(call));
    }
  }

  SyncCall update_call(const GradientLeaf& leaf) const {
    SyncCall call = call_for(leaf, SyncCall::Purpose::update, Collective::all_gather, leaf.data);
    call.dtype = graph_.value(leaf.parameter).dtype;
    call.when = SyncCall::When::last;
    return call;
  }

  // All of `leaves` in one call per stage, family and type; the stages in their order.
  std::vector<SyncCall> update_calls(const std::vector<GradientLeaf>& leaves) const {
    std::vector<SyncCall> calls;
    for (const GradientLeaf& leaf : leaves) {
      SyncCall fresh = update_call(leaf);
      const auto same = std::find_if(calls.begin(), calls.end(), [&](const SyncCall& c) {
        return c.stage == fresh.stage && c.atoms == fresh.atoms && c.expert == fresh.expert &&
               c.dtype == fresh.dtype;
      });
      if (same == calls.end())
        calls.push_back(std::move(fresh));
      else
        same->members.push_back(leaf.parameter);
    }
    std::stable_sort(calls.begin(), calls.end(),
                     [](const SyncCall& a, const SyncCall& b) { return a.stage < b.stage; });
    return calls;
  }

  void update_at_once() {
    std::vector<GradientLeaf> leaves = leaves_;
    std::erase_if(leaves, [](const GradientLeaf& leaf) { return leaf.data == 0; });
    for (SyncCall& call : update_calls(leaves)) {
      Count all = 0;
      for (const TensorId p : call.members) all = checked_add(all, elements(local_of(p)));
      const auto n = static_cast<Count>(graph_.mesh.size(call.atoms));
      const auto align = static_cast<Count>(decl_.update_alignment);
      call.elements = checked_mul(ceil_div(all, checked_mul(n, align)), align);
      call.shape = flat(call.elements);
      out_.calls.push_back(std::move(call));
    }
  }

  // --- ZeRO 3 ------------------------------------------------------------------------------------

  bool persistent(TensorId p) const {
    return elements(local_of(p)) <= static_cast<Count>(decl_.persistent_elements);
  }

  void update_persistent() {
    std::vector<GradientLeaf> leaves = leaves_;
    std::erase_if(leaves, [&](const GradientLeaf& leaf) {
      return leaf.data == 0 || !persistent(leaf.parameter);
    });
    for (const SyncCall& together : update_calls(leaves))
      for (const TensorId p : together.members) {  // _allgather_params_coalesced: a launch for each
        SyncCall call = together;
        call.members = {p};
        call.elements = part(call.members, call.atoms);
        call.shape = flat(call.elements);
        out_.calls.push_back(std::move(call));
      }
  }

  // Each module is gathered when it runs, in both directions.
  void gather_units(const std::vector<ShardingUnit>& units) {
    for (const UnitGather& g : unit_gathers(graph_, units, backward_))
      gather(units[g.unit],
             g.backward ? SyncCall::Where::before_backward_op : SyncCall::Where::before_forward_op,
             g.before);
  }

  // --- fully sharded -----------------------------------------------------------------------------

  Shape local_of(TensorId p) const {
    return local_shape(graph_.value(p).shape, graph_.value(p).layout, graph_.mesh);
  }

  // The dim along which a parameter is cut: that of its unit (FSDP), of the flat tensor (ZeRO 3).
  int cut_dim(TensorId p) const {
    const auto at = cut_dims_.find(graph_.value(p).name);
    return at == cut_dims_.end() || !fully_sharded() ? 0 : at->second;
  }

  // Elements of one rank's part: every parameter is padded to a multiple of the group, on the dim
  // along which it is cut.
  Count part(const std::vector<TensorId>& members, AtomSet atoms) const {
    const auto n = static_cast<Count>(graph_.mesh.size(atoms));
    Count total = 0;
    for (const TensorId p : members) {
      Shape local = local_of(p);
      if (local.empty()) local = {1};
      if (!fully_sharded()) local = flat(elements(local));
      int64_t& rows = local[static_cast<size_t>(cut_dim(p))];
      rows = static_cast<int64_t>(ceil_div(static_cast<Count>(rows), n));
      total = checked_add(total, elements(local));
    }
    return total;
  }

  // A root is kept after the forward. Where the next microbatch's comes before the backward that
  // reshards it, nothing is gathered for that one: it depends on the schedule.
  void refuse_root_of_pipeline(const ShardingUnit& u) const {
    const auto pipeline = graph_.mesh.pipeline_atom();
    const bool several =
        pipeline && graph_.mesh.atom(*pipeline).size > 1 && graph_.microbatches > 1;
    if (!u.root || !several || !decl_.reshard_after_backward || by_family(u).empty()) return;
    const std::string found = fmt::format(
        "{}{} of no unit, in a pipeline: the root, which is kept after the forward, is resharded "
        "after the backward of each microbatch",
        quoted(graph_.value(u.members[0]).name), and_more(" and", u.members.size()));
    throw UserError(
        graph_.file,
        {{decl_.pointer, found, "a unit for every parameter",
          "Or keep them: \"reshard_after_forward\" and \"reshard_after_backward\" false.",
          "resharding"}});
  }

  void shard_fully() {
    const std::vector<ShardingUnit> all = sharding_units(graph_);
    for (const ShardingUnit& u : all) refuse_root_of_pipeline(u);
    gather_units(all);
    std::vector<ShardingUnit> reversed(all.rbegin(), all.rend());
    std::stable_sort(reversed.begin(), reversed.end(),
                     [](const ShardingUnit& a, const ShardingUnit& b) {
                       return std::tuple(-a.stage, a.root, -a.last.value) <
                              std::tuple(-b.stage, b.root, -b.last.value);
                     });
    // Reductions follow the backward. Those of units without a hook wait for its end, which visits
    // the root first; torch's pipelines make up for all of them there.
    const Needs needs = find_needed_gradients(graph_);
    const auto hooked = [&](const ShardingUnit& u) {
      return overlaps(decl_) &&
             (has_end_hook(graph_, u, needs) || !last_backward_op(u, backward_).valid());
    };
    for (const ShardingUnit& u : reversed)
      if (hooked(u)) scatter(u, last_backward_op(u, backward_));
    for (const ShardingUnit& u : all)
      if (!hooked(u)) scatter(u, end_of_backward(u.stage));
  }

  void gather(const ShardingUnit& u, SyncCall::Where where, OpId anchor) {
    for (const auto& [key, members] : by_family(u)) {
      SyncCall call;
      call.purpose = SyncCall::Purpose::gather;
      call.where = where;
      call.op = anchor;
      call.when = decl_.reshard_after_backward ? SyncCall::When::every : SyncCall::When::first;
      call.collective = Collective::all_gather;
      call.atoms = std::get<AtomSet>(key);
      call.expert = graph_.value(members[0]).expert;
      call.members = members;
      call.dtype = std::get<DType>(key);
      call.elements = part(members, call.atoms);
      call.shape = flat(call.elements);
      call.stage = u.stage;
      call.to = call.from = graph_.value(members[0]).layout;
      for (size_t i = 0; i < graph_.atoms(); ++i)
        if (contains(call.atoms, AtomIndex(i)))
          call.from[AtomIndex(i)] = Placement::S(cut_dim(members[0]));
      out_.calls.push_back(std::move(call));
    }
  }

  // True: of experts, which a module that is wrapped as one holds like all others.
  using FamilyKey = std::tuple<AtomSet, DType, bool>;
  std::map<FamilyKey, std::vector<TensorId>> by_family(const ShardingUnit& u) const {
    std::map<FamilyKey, std::vector<TensorId>> groups;
    for (const TensorId p : u.members) {
      AtomSet atoms = 0;
      for (size_t i = 0; i < graph_.atoms(); ++i)
        if (contains(sync_atoms(graph_, p) & ~replicated(), AtomIndex(i)) &&
            graph_.mesh.atoms()[i].size > 1 && graph_.value(p).layout[AtomIndex(i)].is_replicate())
          atoms |= atom_bit(AtomIndex(i));
      if (decl_.kind == SyncKind::zero3 && persistent(p)) continue;
      if (atoms)
        groups[{atoms, graph_.value(p).dtype, !fully_sharded() && graph_.value(p).expert}]
            .push_back(p);
    }
    return groups;
  }

  // Axes on which parts live several times (HSDP).
  AtomSet replicated() const {
    AtomSet atoms = 0;
    for (const std::string& name : decl_.replicated)
      if (const Axis* axis = graph_.mesh.find(name)) atoms |= axis->atoms;
    return atoms;
  }

  void scatter(const ShardingUnit& u, OpId anchor) {
    std::map<FamilyKey, std::vector<const GradientLeaf*>> groups;
    for (const GradientLeaf& leaf : leaves_)
      if (leaf.stage == u.stage && leaf.data &&
          std::find(u.members.begin(), u.members.end(), leaf.parameter) != u.members.end()) {
        groups[{leaf.data, leaf.dtype, !fully_sharded() && leaf.expert}].push_back(&leaf);
        if (leaf.model) whole_first(leaf, anchor);
      }
    for (const auto& [key, leaves] : groups) {
      const AtomSet atoms = std::get<AtomSet>(key);
      const AtomSet shards = atoms & ~replicated(), copies = atoms & replicated();
      SyncCall call =
          call_for(*leaves[0], SyncCall::Purpose::data, Collective::reduce_scatter, shards);
      for (size_t i = 0; i < graph_.atoms(); ++i)
        if (contains(shards, AtomIndex(i)))
          call.to[AtomIndex(i)] = Placement::S(cut_dim(leaves[0]->parameter));
      call.members.clear();
      for (const GradientLeaf* leaf : leaves) call.members.push_back(leaf->parameter);
      call.elements = part(call.members, shards);
      call.shape = flat(call.elements * static_cast<Count>(graph_.mesh.size(shards)));
      place_after(call, anchor);
      out_.calls.push_back(call);
      if (graph_.mesh.size(copies) == 1) continue;
      call.collective = Collective::all_reduce;  // ranks that keep the same part
      call.atoms = copies;
      call.shape = flat(call.elements);
      call.from = call.to;
      for (size_t i = 0; i < graph_.atoms(); ++i) {
        if (!contains(copies, AtomIndex(i))) continue;
        call.from[AtomIndex(i)] = leaves[0]->gradient[AtomIndex(i)];
        call.to[AtomIndex(i)] = Placement::R();
      }
      out_.calls.push_back(std::move(call));
    }
  }

  // A gradient that is partial on a model axis too (norms under sequence parallelism) is made whole
  // there as its unit is reduced: in the parameter's type, or in that of the accumulated gradient.
  void whole_first(const GradientLeaf& leaf, OpId anchor) {
    SyncCall call = model_call({leaf});
    call.when = every_microbatch(decl_) ? SyncCall::When::every : SyncCall::When::last;
    if (every_microbatch(decl_)) call.dtype = graph_.value(leaf.parameter).dtype;
    place_after(call, anchor);
    out_.calls.push_back(std::move(call));
  }

  // --- model axes and tied parameters ------------------------------------------------------------

  void reduce_on_model_axes() {
    const bool coalesced = graph_.switches.coalesce_model_sync;  // over all chunks of a rank
    std::map<std::tuple<int64_t, AtomSet, DType>, std::vector<GradientLeaf>> groups;
    for (const GradientLeaf& leaf : leaves_)
      if (leaf.model && !(fully_sharded() && leaf.data))
        groups[{coalesced ? pipeline_rank(graph_, leaf.stage) : leaf.stage, leaf.model, leaf.dtype}]
            .push_back(leaf);
    for (const auto& [key, leaves] : groups) {
      if (coalesced) {
        out_.calls.push_back(model_call(leaves));
      } else {
        for (const GradientLeaf& leaf : leaves) out_.calls.push_back(model_call({leaf}));
      }
    }
  }

  SyncCall model_call(const std::vector<GradientLeaf>& leaves) const {
    SyncCall call =
        call_for(leaves[0], SyncCall::Purpose::model, Collective::all_reduce, leaves[0].model);
    call.when = SyncCall::When::last;
    call.members.clear();
    Bucket b;
    b.leaves = leaves;
    for (const GradientLeaf& leaf : leaves) b.elements += elements(leaf.local);
    fill(call, b, Collective::all_reduce);
    return call;
  }

  void reduce_tied() {
    for (const TiedLeaf& tied : tied_leaves(graph_, leaves_)) {
      SyncCall call = call_for(*tied.leaf, SyncCall::Purpose::tied, Collective::all_reduce,
                               atom_bit(*graph_.mesh.pipeline_atom()));
      call.when = SyncCall::When::last;
      call.pipeline_members = tied.ranks;
      call.elements = elements(tied.leaf->local);
      call.shape = tied.leaf->local;
      out_.calls.push_back(std::move(call));
    }
  }

  const Graph& graph_;
  const Backward& backward_;
  const GradientSyncDecl& decl_;
  std::vector<GradientLeaf> leaves_;
  std::map<std::string_view, int> cut_dims_;  // of parameters that are not cut along the first dim
  Sync out_;
};

}  // namespace

Sync plan_gradient_sync(const Graph& graph, const Backward& backward) {
  return SyncPlanner(graph, backward).plan();
}

}  // namespace s2t
