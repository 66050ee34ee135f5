#include "analyzer/backward/buckets.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace s2t {
namespace {

Count limit(const GradientSyncDecl& decl, int stage, bool first) {
  if (decl.first_stage_only && stage > 0) return UINT64_MAX;
  const bool ddp = decl.kind == SyncKind::bucketed;
  if (ddp && decl.first_iteration) return UINT64_MAX;
  const auto stated =
      first && decl.first_bucket_bytes ? decl.first_bucket_bytes : decl.bucket_bytes;
  if (stated) return static_cast<Count>(*stated);
  return !ddp ? static_cast<Count>(INT64_MAX) : first ? Count{1} << 20 : Count{25} << 20;
}

void add(Bucket& bucket, const GradientLeaf& leaf) {
  bucket.elements = checked_add(bucket.elements, elements(leaf.local));
  bucket.leaves.push_back(leaf);
  bucket.sent = leaf.ready;
}

std::vector<Bucket> closed_when_reached(const GradientSyncDecl& decl,
                                        const std::vector<const GradientLeaf*>& taken) {
  using Kind = std::tuple<int, bool, AtomSet, DType, DType, bool>;
  std::map<Kind, Bucket> open;
  std::map<Kind, size_t> closed_count;
  std::vector<Bucket> closed;
  for (const GradientLeaf* leaf : taken) {
    const Kind kind{leaf->stage, leaf->expert, leaf->data,
                    leaf->dtype, leaf->stored, decl.tied_alone && leaf->tied};
    Bucket& b = open[kind];
    add(b, *leaf);
    if (b.elements * size_of(leaf->dtype) < limit(decl, leaf->stage, closed_count[kind] == 0))
      continue;
    ++closed_count[kind];
    closed.push_back(std::move(b));
    open.erase(kind);
  }
  std::vector<Bucket> rest;
  for (auto& [kind, b] : open) rest.push_back(std::move(b));
  std::stable_sort(rest.begin(), rest.end(),
                   [](const Bucket& a, const Bucket& b) { return a.sent > b.sent; });
  closed.insert(closed.end(), rest.begin(), rest.end());
  return closed;
}

class ClosedBefore {
 public:
  explicit ClosedBefore(const GradientSyncDecl& decl) : decl_(decl) {}

  std::vector<Bucket> cut(const std::vector<const GradientLeaf*>& taken) {
    for (const GradientLeaf* leaf : taken) {
      Open& open = open_[{leaf->stage, leaf->dtype}];
      const Count all = checked_add(open.elements, elements(leaf->local));
      if (!open.buckets.empty() && all * size_of(leaf->dtype) > limit(decl_, leaf->stage, false))
        send(open, leaf->ready);
      open.elements = checked_add(open.elements, elements(leaf->local));
      add(bucket_of(open, *leaf), *leaf);
    }
    for (auto& [kind, open] : open_) send(open, {});
    return std::move(closed_);
  }

 private:
  struct Open {
    Count elements = 0;
    std::vector<Bucket> buckets;  // one per set of axes, in the order of their first gradient
  };

  static Bucket& bucket_of(Open& open, const GradientLeaf& leaf) {
    for (Bucket& b : open.buckets)
      if (b.leaves[0].data == leaf.data && b.leaves[0].expert == leaf.expert) return b;
    return open.buckets.emplace_back();
  }

  void send(Open& open, OpId sent) {
    for (Bucket& b : open.buckets) {
      b.sent = sent;
      closed_.push_back(std::move(b));
    }
    open = {};
  }

  const GradientSyncDecl& decl_;
  std::map<std::pair<int, DType>, Open> open_;
  std::vector<Bucket> closed_;
};

}  // namespace

std::vector<Bucket> cut_into_buckets(const GradientSyncDecl& decl,
                                     const std::vector<GradientLeaf>& leaves) {
  std::vector<const GradientLeaf*> taken;
  for (const GradientLeaf& leaf : leaves)
    if (leaf.data) taken.push_back(&leaf);
  if (!decl.parameter_order)
    std::stable_sort(taken.begin(), taken.end(), [](const GradientLeaf* a, const GradientLeaf* b) {
      return a->ready > b->ready;
    });
  return decl.close_before ? ClosedBefore(decl).cut(taken) : closed_when_reached(decl, taken);
}

}  // namespace s2t
