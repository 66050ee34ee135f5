// When parameters that live in parts are gathered: the hooks of torch.distributed.fsdp fully_shard
// (_fsdp_state.py, _pre_forward and _pre_backward; _fsdp_param_group.py, _backward_prefetch), and
// DeepSpeed's fetches without prefetching.
#include <algorithm>
#include <tuple>

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

void GradientSync::before_forward(OpId op) {
  for (const Unit& u : parameters_.units())
    if (u.stage == stage_ && u.first == op) {
      fetch(u);
      if (!u.root) fetch_in_advance(graph_.sync.units[u.number].forward_prefetch);
    }
}

// The unit whose forward ended last has its backward first; of one within another the outer one.
void GradientSync::plan_units(int stage, const std::vector<OpId>& running) {
  chain_.clear();
  scatters_.clear();
  for (const Unit& u : parameters_.units())
    if (u.stage == stage) chain_.push_back({&u, {}});
  std::vector<const Unit*> units;
  for (const Turn& turn : chain_) units.push_back(turn.unit);
  plan_reductions(units, running);
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
