// Buckets as Megatron fills them: distributed/param_and_grad_buffer.py, _ParamAndGradBuffer.__init__.
#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/backward/buckets.h"
#include "analyzer/base/diagnostics.h"
#include "analyzer/graph/sync_defaults.h"

namespace s2t {
namespace {

class Filling {
 public:
  Filling(const Graph& graph, const std::vector<GradientLeaf>& leaves) : decl_(graph.sync) {
    for (const GradientLeaf& leaf : leaves) {
      if (!leaf.data) continue;
      leaves_[{leaf.stage, graph.value(leaf.parameter).name}] = {&leaf};
    }
  }

  std::vector<Bucket> fill() {
    for (auto r = decl_.registered.rbegin(); r != decl_.registered.rend(); ++r) take(*r);
    for (const auto& [key, found] : leaves_)  // what nobody registers comes last
      if (!found.taken) take({{key.second}, key.first, 0, 1});
    std::stable_sort(buckets_.begin(), buckets_.end(), [&](const Bucket& a, const Bucket& b) {
      return std::tuple(a.leaves[0].stage, a.leaves[0].expert) <
             std::tuple(b.leaves[0].stage, b.leaves[0].expert);
    });
    return std::move(buckets_);
  }

 private:
  struct Found {
    const GradientLeaf* leaf = nullptr;
    bool taken = false;
  };
  using Kind = std::tuple<int, bool, AtomSet, DType, DType>;  // gradients of one fill one buffer

  void take(const RegisteredDecl& registered) {
    std::vector<const GradientLeaf*> leaves;
    for (const std::string& name : registered.members)
      if (const auto it = leaves_.find({registered.stage, name}); it != leaves_.end()) {
        it->second.taken = true;
        leaves.push_back(it->second.leaf);
      }
    if (leaves.empty()) return;  // frozen
    const GradientLeaf& first = *leaves[0];
    const Kind kind{first.stage, first.expert, first.data, first.dtype, first.stored};
    const bool alone = decl_.tied_alone && first.tied;
    if (alone) open_.erase(kind);  // what came before is a bucket without it
    const auto [open, fresh] = open_.emplace(kind, buckets_.size());
    if (fresh) buckets_.emplace_back();
    add(buckets_[open->second], leaves, static_cast<Count>(registered.parts));
    if (alone || full(buckets_[open->second])) open_.erase(open);
  }

  void add(Bucket& bucket, const std::vector<const GradientLeaf*>& leaves, Count parts) const {
    const auto multiple = static_cast<Count>(decl_.parameter_multiple);
    if (multiple == 0 || parts == 0) throw Fault("gradients in parts of no elements");
    bucket.elements = ceil_div(bucket.elements, multiple) * multiple;
    for (const GradientLeaf* leaf : leaves) {
      bucket.elements = checked_add(bucket.elements, elements(leaf->local) / parts);
      bucket.sent = later(bucket.sent, leaf->ready);
      if (std::none_of(bucket.leaves.begin(), bucket.leaves.end(),
                       [&](const GradientLeaf& l) { return l.parameter == leaf->parameter; }))
        bucket.leaves.push_back(*leaf);
    }
  }

  bool full(const Bucket& bucket) const {
    const GradientLeaf& leaf = bucket.leaves[0];
    return bucket.elements * size_of(leaf.dtype) >= bucket_limit(decl_, leaf.stage, false);
  }

  const GradientSyncDecl& decl_;
  std::map<std::pair<int, std::string>, Found> leaves_;
  std::map<Kind, size_t> open_;
  std::vector<Bucket> buckets_;
};

}  // namespace

std::vector<Bucket> cut_into_buckets(const Graph& graph, const std::vector<GradientLeaf>& leaves) {
  if (graph.sync.registered.empty()) return cut_into_buckets(graph.sync, leaves);
  return Filling(graph, leaves).fill();
}

}  // namespace s2t
