#include "runtime/run/buckets.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace s2t {
namespace {

// PyTorch DDP: 1 MiB for the first bucket so that communication starts early, then 25 MiB; one
// bucket of any size in the first iteration. ZeRO: no limit unless stated.
Count limit(const GradientSyncDecl& sync, int stage, size_t closed) {
  if (sync.first_stage_only && stage > 0) return UINT64_MAX;
  const bool ddp = sync.kind == SyncKind::bucketed;
  if (ddp && sync.first_iteration) return UINT64_MAX;
  const auto stated =
      closed == 0 && sync.first_bucket_bytes ? sync.first_bucket_bytes : sync.bucket_bytes;
  if (stated) return static_cast<Count>(*stated);
  return !ddp ? static_cast<Count>(INT64_MAX) : closed == 0 ? Count{1} << 20 : Count{25} << 20;
}

// A bucket closes when it has reached its limit, one open bucket per kind of gradient.
std::vector<GradientBucket> full_when_reached(const GradientSyncDecl& sync,
                                              const std::vector<Leaf>& leaves,
                                              const std::vector<size_t>& taken) {
  using Kind = std::tuple<AtomSet, DType, DType, bool>;
  std::map<Kind, GradientBucket> open;
  std::map<Kind, size_t> closed;
  std::vector<GradientBucket> buckets, rest;
  for (const size_t i : taken) {
    const Leaf& leaf = leaves[i];
    const Kind kind{leaf.data, leaf.dtype, leaf.stored, sync.tied_alone && leaf.tied};
    GradientBucket& bucket = open[kind];
    bucket.leaves.push_back(i);
    bucket.elements += elements(leaf.shape);
    bucket.ready = leaf.ready;
    if (bucket.elements * size_of(leaf.dtype) < limit(sync, leaf.stage, closed[kind])) continue;
    ++closed[kind];
    bucket.closed = true;
    buckets.push_back(std::move(bucket));
    open.erase(kind);
  }
  for (auto& [kind, bucket] : open) rest.push_back(std::move(bucket));
  std::stable_sort(rest.begin(), rest.end(), [](const GradientBucket& a, const GradientBucket& b) {
    return a.ready > b.ready;
  });
  buckets.insert(buckets.end(), rest.begin(), rest.end());
  return buckets;
}

// One buffer for all gradients of a type: what does not fit any more empties it first. What is in
// it goes out once for each group of ranks.
std::vector<GradientBucket> emptied_when_full(const GradientSyncDecl& sync,
                                              const std::vector<Leaf>& leaves,
                                              const std::vector<size_t>& taken, OpId end) {
  std::vector<GradientBucket> buckets;
  std::map<DType, std::vector<size_t>> buffers;
  const auto empty = [&](std::vector<size_t>& buffer, OpId when) {
    const size_t before = buckets.size();
    for (const size_t i : buffer) {
      auto same = std::find_if(
          buckets.begin() + static_cast<long>(before), buckets.end(),
          [&](const GradientBucket& b) { return leaves[b.leaves[0]].data == leaves[i].data; });
      if (same == buckets.end()) same = buckets.insert(same, {{}, 0, true, when});
      same->leaves.push_back(i);
      same->elements += elements(leaves[i].shape);
    }
    buffer.clear();
  };
  std::map<DType, Count> held;
  for (const size_t i : taken) {
    const Leaf& leaf = leaves[i];
    const Count size = elements(leaf.shape);
    std::vector<size_t>& buffer = buffers[leaf.dtype];
    if (!buffer.empty() &&
        (held[leaf.dtype] + size) * size_of(leaf.dtype) > limit(sync, leaf.stage, 1)) {
      empty(buffer, leaf.ready);
      held[leaf.dtype] = 0;
    }
    buffer.push_back(i);
    held[leaf.dtype] += size;
  }
  for (auto& [dtype, buffer] : buffers) empty(buffer, end);
  return buckets;
}

}  // namespace

std::vector<GradientBucket> buckets_of(const GradientSyncDecl& sync,
                                       const std::vector<Leaf>& leaves, std::vector<size_t> taken,
                                       OpId end) {
  if (!sync.parameter_order)
    std::stable_sort(taken.begin(), taken.end(),
                     [&](size_t a, size_t b) { return leaves[a].ready > leaves[b].ready; });
  return sync.close_before ? emptied_when_full(sync, leaves, taken, end)
                           : full_when_reached(sync, leaves, taken);
}

}  // namespace s2t
