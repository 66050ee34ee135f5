#include "analyzer/backward/sync_remarks.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "analyzer/backward/gradient_sync.h"
#include "analyzer/base/text.h"

namespace s2t {
namespace {

class Remarks {
 public:
  Remarks(const Graph& graph, const Backward& backward, const std::vector<GradientLeaf>& leaves)
      : graph_(graph), backward_(backward), decl_(graph.sync), leaves_(leaves) {}

  std::vector<Remark> remarks() {
    remark_stated_axes();
    remark_unused();
    std::map<AtomSet, std::vector<std::string>> stay;  // parameters, by what is never reduced
    for (const GradientLeaf& leaf : leaves_) {
      const AtomSet reduced = decl_.kind == SyncKind::none ? leaf.model : leaf.data | leaf.model;
      const AtomSet left = leaf.gradient.partial() & ~reduced;
      if (left) stay[left].push_back(graph_.value(leaf.parameter).name);
    }
    for (const auto& [left, names] : stay) {
      const bool data = (left & graph_.data_atoms) == left;
      list_.push_back({data ? "unsynchronised-gradient" : "partial-gradient",
                       fmt::format("the gradient of {}{} stays a partial sum over {}: {}",
                                   quoted(names.front()), and_more(" and", names.size()),
                                   graph_.mesh.family_of(left).name,
                                   data ? "no gradient synchronisation reduces over it"
                                        : "under per_rank nothing reduces it")});
    }
    return std::move(list_);
  }

 private:
  // Frameworks differ in what they do about a parameter that no gradient reaches.
  void remark_unused() {
    if (!graph_.loss.valid()) return;
    std::vector<std::string> unused;
    for (const TensorId p : parameters_of(graph_))
      if (graph_.value(p).requires_grad && backward_.leaf_gradients[p.at()].empty())
        unused.push_back(graph_.value(p).name);
    if (unused.empty()) return;
    list_.push_back(
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
      std::vector<const GradientLeaf*> sharded;
      bool reduced = false;
      for (const GradientLeaf& leaf : leaves_) {
        reduced |= (leaf.data & axis->atoms) != 0;
        if (cut_over(leaf, axis->atoms)) sharded.push_back(&leaf);
      }
      if (sharded.empty() || (reduced && axis->kind == AxisKind::data)) continue;
      list_.push_back(
          {axis->kind == AxisKind::data ? "expert-in-dense-group" : "shard-in-sync-group",
           fmt::format("gradient_sync names {}, but its ranks hold different parts of {}{}: their "
                       "gradients are different tensors and are not summed over it",
                       name, quoted(graph_.value(sharded.front()->parameter).name),
                       and_more(" and", sharded.size()))});
    }
  }

  bool cut_over(const GradientLeaf& leaf, AtomSet atoms) const {
    for (size_t i = 0; i < graph_.atoms(); ++i)
      if (contains(atoms, AtomIndex(i)) && leaf.wanted[AtomIndex(i)].is_shard()) return true;
    return false;
  }

  const Graph& graph_;
  const Backward& backward_;
  const GradientSyncDecl& decl_;
  const std::vector<GradientLeaf>& leaves_;
  std::vector<Remark> list_;
};

}  // namespace

std::vector<Remark> remarks_on_sync(const Graph& graph, const Backward& backward,
                                    const std::vector<GradientLeaf>& leaves) {
  return Remarks(graph, backward, leaves).remarks();
}

}  // namespace s2t
