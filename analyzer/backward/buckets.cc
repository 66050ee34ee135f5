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

// Buckets that were cut from the front of the model, numbered as the backward fills them: each is
// sent with the gradient of it that is ready last, but never before the one in front of it.
void sent_last_to_first(std::vector<Bucket>& buckets) {
  std::reverse(buckets.begin(), buckets.end());
  OpId sent;
  for (Bucket& b : buckets) {
    for (const GradientLeaf& leaf : b.leaves) b.sent = std::min(b.sent, leaf.ready);
    if (sent.valid()) b.sent = std::min(b.sent, sent);
    sent = b.sent;
  }
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
  if (decl.last_bucket_first) sent_last_to_first(closed);
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

// Where a leaf's gradient begins among the flat ones of its group, and the size of a rank's part.
std::pair<Count, Count> place_in_parts(const GradientLeaf& leaf,
                                       const std::vector<GradientLeaf>& leaves, Count block) {
  Count all = 0, at = 0;
  for (const GradientLeaf& other : leaves) {
    if (other.stage != leaf.stage || other.data != leaf.data || other.dtype != leaf.dtype) continue;
    if (other.parameter == leaf.parameter) at = all;
    all = checked_add(all, elements(other.local));
  }
  return {at, ceil_div(all, block)};
}

}  // namespace

std::vector<Count> whole_calls(const GradientSyncDecl& decl, const Bucket& bucket,
                               const std::vector<GradientLeaf>& leaves, int64_t ranks) {
  const auto n = static_cast<Count>(ranks);
  const Count padding = checked_mul(n, static_cast<Count>(decl.bucket_multiple));
  if (decl.bucket_multiple > 1) return {ceil_div(bucket.elements, padding) * padding};
  const GradientLeaf& leaf = bucket.leaves[0];
  const Count most = limit(decl, leaf.stage, false) / size_of(leaf.dtype);
  if (bucket.leaves.size() > 1 || bucket.elements <= most || decl.update_alignment == 0)
    return {bucket.elements};
  const auto align = static_cast<Count>(decl.update_alignment);
  auto [at, part] = place_in_parts(leaf, leaves, checked_mul(n, align));
  part *= align;
  std::vector<Count> calls;
  Count held = 0;
  for (const Count end = at + bucket.elements; at < end;) {
    const Count next = std::min(end, (at / part + 1) * part);
    held += next - at;
    at = next;
    if (held <= most && at < end) continue;
    calls.push_back(held);
    held = 0;
  }
  return calls;
}

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
