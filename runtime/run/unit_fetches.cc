// When parameters that live in parts are gathered: the hooks of torch.distributed.fsdp fully_shard
// (_fsdp_state.py, _pre_forward and _pre_backward; _fsdp_param_group.py, _backward_prefetch), and
// DeepSpeed's fetches without prefetching.
#include <algorithm>
#include <tuple>
#include <utility>

#include "runtime/run/gradient_sync.h"

namespace s2t {
namespace {

// The first of the running ops that lie in a unit.
OpId first_within(const std::vector<OpId>& running, const Parameters::Unit& u) {
  for (const OpId op : running)
    if (op >= u.first && op <= u.last) return op;
  return {};
}

}  // namespace

void GradientSync::fetch(const Unit& unit) {
  if (there_.insert(&unit).second) parameters_.gather(unit, tag_);
}

void GradientSync::fetch_in_advance(const std::vector<size_t>& numbers) {
  for (const size_t number : numbers)
    for (const Unit& u : parameters_.units())
      if (u.stage == stage_ && u.number == number) fetch(u);
}

// Megatron, distributed_data_parallel.py, _make_forward_pre_hook; param_and_grad_buffer.py,
// finish_param_sync: of the step before, all-gathered where a bucket is needed, and the next with it.
void GradientSync::plan_first_uses(int stage) {
  awaited_.clear();
  awaited_leaves_.clear();
  if (!begun_.insert(stage).second) return;
  std::vector<OpId> all;
  for (size_t o = graph_.ops.size(); o-- > 0;)
    if (graph_.ops[o].stage == stage) all.emplace_back(o);
  std::vector<size_t> taken;
  for (Leaf& leaf : leaves_of_stage(graph_, forward_, stage, all)) {
    if (leaf.data) taken.push_back(awaited_leaves_.size());
    awaited_leaves_.push_back(std::move(leaf));
  }
  for (Bucket& b : buckets_of_registered(graph_, awaited_leaves_, taken, stage))
    awaited_.push_back({std::move(b)});
}

void GradientSync::gather_before_use(OpId op) {
  const auto send = [&](Awaited& a) {
    if (std::exchange(a.sent, true)) return;
    const int64_t n = graph_.mesh.size(awaited_leaves_[a.bucket.leaves[0]].data);
    gather_part(a.bucket, awaited_leaves_, part_of(a.bucket, n), tag_);
  };
  const auto expert = [&](const Awaited& a) { return awaited_leaves_[a.bucket.leaves[0]].expert; };
  const bool by_chunk = graph_.pipeline && graph_.pipeline->chunks > 1;
  for (size_t i = 0; by_chunk && i < awaited_.size(); ++i) send(awaited_[i]);
  const std::vector<TensorId>& read = graph_.op(op).inputs;
  for (size_t i = awaited_.size(); i-- > 0;) {
    Awaited& a = awaited_[i];
    const bool needed =
        std::any_of(a.bucket.leaves.begin(), a.bucket.leaves.end(), [&](size_t leaf) {
          return std::count(read.begin(), read.end(), awaited_leaves_[leaf].parameter) > 0;
        });
    if (!needed || std::exchange(a.used, true)) continue;
    send(a);
    if (i > 0 && expert(awaited_[i - 1]) == expert(a)) send(awaited_[i - 1]);
  }
}

void GradientSync::before_forward(OpId op) {
  gather_before_use(op);
  for (const Unit& u : parameters_.units())
    if (u.stage == stage_ && u.first == op) {
      fetch(u);
      if (!u.root) fetch_in_advance(graph_.sync.units[u.number].forward_prefetch);
    }
}

// The unit whose forward ended last has its backward first; of one within another the outer one.
void GradientSync::plan_units(int stage, const std::vector<OpId>& running,
                              const RequiresGrad& requires_grad) {
  chain_.clear();
  scatters_.clear();
  for (const Unit& u : parameters_.units())
    if (u.stage == stage) chain_.push_back({&u, {}});
  std::vector<const Unit*> units;
  for (const Turn& turn : chain_) units.push_back(turn.unit);
  plan_reductions(units, running, requires_grad);
  std::stable_sort(chain_.begin(), chain_.end(), [](const Turn& a, const Turn& b) {
    return std::tuple(!a.unit->root, -a.unit->last.value, a.unit->first.value) <
           std::tuple(!b.unit->root, -b.unit->last.value, b.unit->first.value);
  });
  for (Turn& turn : chain_) {
    turn.start = first_within(running, *turn.unit);
    if (graph_.sync.kind != SyncKind::zero3 && kept(*turn.unit))
      there_.insert(turn.unit);
    else
      parameters_.release(*turn.unit);
  }
}

bool GradientSync::kept(const Unit& unit) const {
  if (unit.root || !graph_.sync.reshard_after_forward) return true;
  if (graph_.sync.reshard_last_unit) return false;
  return std::none_of(parameters_.units().begin(), parameters_.units().end(),
                      [&](const Unit& u) { return !u.root && u.last > unit.last; });
}

// A unit whose backward begins has the next one gathered, so that it is there when its turn comes.
void GradientSync::before_backward(OpId op) {
  for (size_t i = 0; i < chain_.size(); ++i) {
    const Unit& u = *chain_[i].unit;
    if (chain_[i].start != op) continue;
    fetch(u);
    if (graph_.sync.kind == SyncKind::zero3) continue;
    if (!u.root && !graph_.sync.units[u.number].backward_prefetch.empty())
      fetch_in_advance(graph_.sync.units[u.number].backward_prefetch);
    else if (i + 1 < chain_.size())
      fetch(*chain_[i + 1].unit);
  }
}

}  // namespace s2t
