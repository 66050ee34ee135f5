#include "analyzer/backward/buckets.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/graph/sync_defaults.h"

namespace s2t {
namespace {

// Whatever the order inside, a bucket waits for the gradient of it that is ready last.
void add(Bucket& bucket, const GradientLeaf& leaf) {
  bucket.elements = checked_add(bucket.elements, elements(leaf.local));
  bucket.leaves.push_back(leaf);
  bucket.sent = later(bucket.sent, leaf.ready);
}

class ClosedWhenReached {
 public:
  explicit ClosedWhenReached(const GradientSyncDecl& decl) : decl_(decl) {}

  std::vector<Bucket> cut(const std::vector<const GradientLeaf*>& taken) {
    for (const GradientLeaf* leaf : taken) take(*leaf);
    std::vector<Bucket> rest;
    for (auto& [kind, b] : open_) rest.push_back(std::move(b));
    std::stable_sort(rest.begin(), rest.end(), [&](const Bucket& a, const Bucket& b) {
      return decl_.parameter_order ? a.leaves[0].parameter < b.leaves[0].parameter
                                   : a.sent > b.sent;
    });
    closed_.insert(closed_.end(), rest.begin(), rest.end());
    if (decl_.last_bucket_first) std::reverse(closed_.begin(), closed_.end());
    if (decl_.kind == SyncKind::bucketed) in_sequence();
    return std::move(closed_);
  }

 private:
  using Kind = std::tuple<int, bool, AtomSet, DType, DType>;

  void take(const GradientLeaf& leaf) {
    const Kind kind{leaf.stage, leaf.expert, leaf.data, leaf.dtype, leaf.stored};
    const bool alone = decl_.tied_alone && leaf.tied;
    if (alone && open_.count(kind)) close(kind);  // what came before is a bucket without it
    Bucket& b = open_[kind];
    add(b, leaf);
    if (alone ||
        b.elements * size_of(leaf.dtype) >= bucket_limit(decl_, leaf.stage, count_[kind] == 0))
      close(kind);
  }

  void close(const Kind& kind) {
    ++count_[kind];
    closed_.push_back(std::move(open_[kind]));
    open_.erase(kind);
  }

  // DDP sends a bucket never before those in front of it (reducer.cpp, mark_bucket_ready).
  void in_sequence() {
    std::map<int, OpId> sent;  // by stage
    for (Bucket& b : closed_) {
      OpId& before = sent[b.leaves[0].stage];
      before = b.sent = later(before, b.sent);
    }
  }

  const GradientSyncDecl& decl_;
  std::map<Kind, Bucket> open_;
  std::map<Kind, size_t> count_;
  std::vector<Bucket> closed_;
};

class ClosedBefore {
 public:
  explicit ClosedBefore(const GradientSyncDecl& decl) : decl_(decl) {}

  std::vector<Bucket> cut(const std::vector<const GradientLeaf*>& taken) {
    for (const GradientLeaf* leaf : taken) {
      Open& open = open_[{leaf->stage, leaf->dtype}];
      OpId& now = now_[leaf->stage];  // each is taken once those in front of it are there
      now = later(now, leaf->ready);
      const Count all = checked_add(open.elements, elements(leaf->local));
      if (!open.buckets.empty() &&
          all * size_of(leaf->dtype) > bucket_limit(decl_, leaf->stage, false))
        send(open, now);
      open.elements = checked_add(open.elements, elements(leaf->local));
      add(bucket_of(open, *leaf), *leaf);
    }
    for (auto& [kind, open] : open_) send(open, {});
    return std::move(closed_);
  }

 private:
  struct Open {
    Count elements = 0;
    std::vector<Bucket> buckets;  // per set of axes and type, in the order of first gradients
  };

  Bucket& bucket_of(Open& open, const GradientLeaf& leaf) const {
    for (Bucket& b : open.buckets) {
      const GradientLeaf& first = b.leaves[0];
      const bool apart = decl_.tied_alone && (first.tied || leaf.tied);
      if (first.data == leaf.data && first.expert == leaf.expert && first.stored == leaf.stored &&
          !apart)
        return b;
    }
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
  std::map<int, OpId> now_;  // by stage
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

OpId later(OpId a, OpId b) {
  return !a.valid() || (b.valid() && b < a) ? b : a;
}

std::vector<Count> whole_calls(const GradientSyncDecl& decl, const Bucket& bucket,
                               const std::vector<GradientLeaf>& leaves, int64_t ranks) {
  const auto n = static_cast<Count>(ranks);
  const Count padding = checked_mul(n, static_cast<Count>(decl.bucket_multiple));
  if (decl.bucket_multiple > 1) return {ceil_div(bucket.elements, padding) * padding};
  const GradientLeaf& leaf = bucket.leaves[0];
  const Count most = bucket_limit(decl, leaf.stage, false) / size_of(leaf.dtype);
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
  std::vector<Bucket> buckets =
      decl.close_before ? ClosedBefore(decl).cut(taken) : ClosedWhenReached(decl).cut(taken);
  std::stable_sort(buckets.begin(), buckets.end(), [](const Bucket& a, const Bucket& b) {
    return a.leaves[0].stage < b.leaves[0].stage;
  });
  return buckets;
}

}  // namespace s2t
