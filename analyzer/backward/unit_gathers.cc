#include "analyzer/backward/unit_gathers.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace s2t {
namespace {

class Gathers {
 public:
  Gathers(const Graph& graph, const std::vector<ShardingUnit>& units, const Backward& backward)
      : decl_(graph.sync), units_(units), backward_(backward) {}

  std::vector<UnitGather> all() {
    forward();
    backward();
    return std::move(out_);
  }

 private:
  const ShardedUnitDecl* decl_of(size_t u) const {
    return units_[u].root ? nullptr : &decl_.units[units_[u].number];
  }

  bool modules() const { return decl_.kind == SyncKind::zero3; }

  void gather(size_t u, bool backward, OpId before) {
    if (held_.insert(u).second) out_.push_back({u, backward, before});
  }

  void gather_in_advance(const std::vector<size_t>& numbers, int stage, bool backward,
                         OpId before) {
    for (const size_t number : numbers)
      for (size_t u = 0; u < units_.size(); ++u)
        if (units_[u].number == number && units_[u].stage == stage) gather(u, backward, before);
  }

  void forward() {
    for (size_t u = 0; u < units_.size(); ++u) {
      gather(u, false, units_[u].first);
      if (const ShardedUnitDecl* decl = decl_of(u))
        gather_in_advance(decl->forward_prefetch, units_[u].stage, false, units_[u].first);
    }
  }

  // What is not resharded after the forward is there already; a root always is.
  void keep() {
    held_.clear();
    if (modules()) return;
    OpId last_use;
    for (const ShardingUnit& u : units_)
      if (!u.root && (!last_use.valid() || u.last > last_use)) last_use = u.last;
    for (size_t u = 0; u < units_.size(); ++u)
      if (units_[u].root || !decl_.reshard_after_forward ||
          (!decl_.reshard_last_unit && units_[u].last == last_use))
        held_.insert(u);
  }

  // The unit whose forward ended last begins its backward first; one that contains others before
  // these.
  std::vector<size_t> chain() const {
    std::vector<size_t> order;
    for (size_t u = 0; u < units_.size(); ++u) order.push_back(u);
    const auto key = [&](size_t u) {
      const ShardingUnit& unit = units_[u];
      return std::tuple(-unit.stage, !unit.root, -unit.last.value, unit.first.value);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return key(a) < key(b); });
    return order;
  }

  void backward() {
    keep();
    const std::vector<size_t> order = chain();
    for (size_t i = 0; i < order.size(); ++i) {
      const size_t u = order[i];
      const OpId start = first_backward_op(units_[u], backward_);
      if (!start.valid()) continue;  // nothing runs there
      gather(u, true, start);
      if (modules()) continue;
      const ShardedUnitDecl* decl = decl_of(u);
      if (decl && !decl->backward_prefetch.empty())
        gather_in_advance(decl->backward_prefetch, units_[u].stage, true, start);
      else if (i + 1 < order.size() && units_[order[i + 1]].stage == units_[u].stage)
        gather(order[i + 1], true, start);
    }
  }

  const GradientSyncDecl& decl_;
  const std::vector<ShardingUnit>& units_;
  const Backward& backward_;
  std::set<size_t> held_;
  std::vector<UnitGather> out_;
};

}  // namespace

std::vector<UnitGather> unit_gathers(const Graph& graph, const std::vector<ShardingUnit>& units,
                                     const Backward& backward) {
  return Gathers(graph, units, backward).all();
}

}  // namespace s2t
