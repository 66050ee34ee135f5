#include "runtime/run/buckets.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "analyzer/graph/sync_defaults.h"

namespace s2t {
namespace {

void append(GradientBucket& bucket, size_t i, const Leaf& leaf) {
  const auto size = static_cast<int64_t>(elements(leaf.shape));
  bucket.leaves.push_back(i);
  bucket.pieces.push_back({i, {0, size}, static_cast<int64_t>(bucket.elements)});
  bucket.elements += static_cast<Count>(size);
}

// Moves a moment on to when a gradient is there, if that is later: the backward runs from the last
// op to the first.
void wait_for(OpId& moment, OpId ready) {
  if (!moment.valid() || ready < moment) moment = ready;
}

// A bucket closes when it has reached its limit, one open bucket per kind of gradient. It is sent
// when all of its gradients are there.
std::vector<GradientBucket> full_when_reached(const GradientSyncDecl& sync,
                                              const std::vector<Leaf>& leaves,
                                              const std::vector<size_t>& taken) {
  using Kind = std::tuple<bool, AtomSet, DType, DType>;
  std::map<Kind, GradientBucket> open;
  std::map<Kind, size_t> closed;
  std::vector<GradientBucket> buckets, rest;
  const auto close = [&](const Kind& kind) {
    const auto it = open.find(kind);
    if (it == open.end()) return;
    ++closed[kind];
    buckets.push_back(std::move(it->second));
    open.erase(it);
  };
  for (const size_t i : taken) {
    const Leaf& leaf = leaves[i];
    const Kind kind{leaf.expert, leaf.data, leaf.dtype, leaf.stored};
    const bool alone = sync.tied_alone && leaf.tied;
    if (alone) close(kind);
    GradientBucket& bucket = open[kind];
    append(bucket, i, leaf);
    wait_for(bucket.ready, leaf.ready);
    const Count bytes = bucket.elements * size_of(leaf.dtype);
    if (alone || bytes >= bucket_limit(sync, leaf.stage, closed[kind] == 0)) close(kind);
  }
  for (auto& [kind, bucket] : open) rest.push_back(std::move(bucket));
  std::stable_sort(rest.begin(), rest.end(), [&](const GradientBucket& a, const GradientBucket& b) {
    return sync.parameter_order ? a.leaves[0] < b.leaves[0] : a.ready > b.ready;
  });
  buckets.insert(buckets.end(), rest.begin(), rest.end());
  return buckets;
}

// DDP's reducer launches buckets by their numbers: one that is full waits for those in front of it.
void launch_in_turn(std::vector<GradientBucket>& buckets) {
  for (size_t b = 1; b < buckets.size(); ++b) wait_for(buckets[b].ready, buckets[b - 1].ready);
}

// One buffer for all gradients of a type: what does not fit any more empties it first. What is in
// it goes out once for each group of ranks and type of parameters, which come back like that.
std::vector<GradientBucket> emptied_when_full(const GradientSyncDecl& sync,
                                              const std::vector<Leaf>& leaves,
                                              const std::vector<size_t>& taken, OpId end) {
  std::vector<GradientBucket> buckets;
  std::map<DType, std::vector<size_t>> buffers;
  const auto empty = [&](std::vector<size_t>& buffer, OpId when) {
    const size_t before = buckets.size();
    for (const size_t i : buffer) {
      auto same = std::find_if(
          buckets.begin() + static_cast<long>(before), buckets.end(), [&](const GradientBucket& b) {
            const Leaf& first = leaves[b.leaves[0]];
            const bool apart = sync.tied_alone && (first.tied || leaves[i].tied);
            return first.data == leaves[i].data && first.expert == leaves[i].expert &&
                   first.stored == leaves[i].stored && !apart;
          });
      if (same == buckets.end()) same = buckets.insert(same, {{}, {}, 0, when});
      append(*same, i, leaves[i]);
    }
    buffer.clear();
  };
  std::map<DType, Count> held;
  OpId now;  // a gradient comes in behind those in front of it
  for (const size_t i : taken) {
    const Leaf& leaf = leaves[i];
    wait_for(now, leaf.ready);
    const Count size = elements(leaf.shape);
    std::vector<size_t>& buffer = buffers[leaf.dtype];
    if (!buffer.empty() &&
        (held[leaf.dtype] + size) * size_of(leaf.dtype) > bucket_limit(sync, leaf.stage, false)) {
      empty(buffer, now);
      held[leaf.dtype] = 0;
    }
    buffer.push_back(i);
    held[leaf.dtype] += size;
  }
  for (auto& [dtype, buffer] : buffers) empty(buffer, end);
  return buckets;
}

// The pieces of one of the framework's parameters, one behind the other.
void append(GradientBucket& bucket, const RegisteredDecl& parameter, int64_t multiple,
            const std::vector<size_t>& members, const std::vector<Leaf>& leaves) {
  int64_t end = (static_cast<int64_t>(bucket.elements) + multiple - 1) / multiple * multiple;
  for (const size_t i : members) {
    const int64_t size = static_cast<int64_t>(elements(leaves[i].shape)) / parameter.parts;
    const int64_t begin = parameter.part * size;
    bucket.pieces.push_back({i, {begin, begin + size}, end});
    end += size;
    if (std::count(bucket.leaves.begin(), bucket.leaves.end(), i) == 0) bucket.leaves.push_back(i);
    wait_for(bucket.ready, leaves[i].ready);
  }
  bucket.elements = static_cast<Count>(end);
}

}  // namespace

GradientBucket whole_leaves(const std::vector<size_t>& taken, const std::vector<Leaf>& leaves) {
  GradientBucket bucket;
  for (const size_t i : taken) append(bucket, i, leaves[i]);
  return bucket;
}

std::vector<GradientBucket> buckets_of_registered(const Graph& graph,
                                                  const std::vector<Leaf>& leaves,
                                                  const std::vector<size_t>& taken, int stage) {
  const GradientSyncDecl& sync = graph.sync;
  std::map<std::string, size_t> of_name;
  for (const size_t i : taken) of_name[graph.value(leaves[i].parameter).name] = i;
  struct Buffer {
    std::vector<GradientBucket> buckets;
    bool closed = true;  // the last one
  };
  std::map<std::tuple<bool, AtomSet, DType, DType>, Buffer> buffers;
  std::vector<RegisteredDecl> order;
  std::map<std::string, size_t> rest = of_name;
  for (auto r = sync.registered.rbegin(); r != sync.registered.rend(); ++r) {
    if (r->stage != stage) continue;
    order.push_back(*r);
    for (const std::string& name : r->members) rest.erase(name);
  }
  for (const auto& [name, i] : rest) order.push_back({{name}, stage, 0, 1});
  for (const RegisteredDecl& parameter : order) {
    std::vector<size_t> members;
    for (const std::string& name : parameter.members)
      if (of_name.count(name)) members.push_back(of_name.at(name));
    if (members.empty()) continue;
    const Leaf& leaf = leaves[members[0]];
    const bool alone = sync.tied_alone && leaf.tied;
    Buffer& buffer = buffers[{leaf.expert, leaf.data, leaf.dtype, leaf.stored}];
    if (buffer.closed || alone) buffer.buckets.emplace_back();
    GradientBucket& bucket = buffer.buckets.back();
    append(bucket, parameter, sync.parameter_multiple, members, leaves);
    const Count bytes = bucket.elements * size_of(leaf.dtype);
    buffer.closed = alone || bytes >= bucket_limit(sync, stage, false);
  }
  std::vector<GradientBucket> dense, expert;
  for (auto& [kind, buffer] : buffers)
    for (GradientBucket& bucket : buffer.buckets)
      (std::get<0>(kind) ? expert : dense).push_back(std::move(bucket));
  dense.insert(dense.end(), expert.begin(), expert.end());
  return dense;
}

Tensor packed(const GradientBucket& bucket, int64_t size, const OfLeaf& of) {
  const DType dtype = of(bucket.pieces[0].leaf).dtype();
  Tensor flat({size}, dtype);
  std::byte* to = flat.writable_bytes();
  const auto each = static_cast<int64_t>(size_of(dtype));
  for (const Piece& p : bucket.pieces)
    if (p.of.end > p.of.begin)
      std::memcpy(to + p.at * each, of(p.leaf).bytes() + p.of.begin * each,
                  static_cast<size_t>((p.of.end - p.of.begin) * each));
  return flat;
}

void unpack(const Tensor& flat, const GradientBucket& bucket, const OfLeaf& of) {
  const auto each = static_cast<int64_t>(size_of(flat.dtype()));
  for (const Piece& p : bucket.pieces)
    if (p.of.end > p.of.begin)
      std::memcpy(of(p.leaf).writable_bytes() + p.of.begin * each, flat.bytes() + p.at * each,
                  static_cast<size_t>((p.of.end - p.of.begin) * each));
}

std::vector<GradientBucket> buckets_of(const GradientSyncDecl& sync,
                                       const std::vector<Leaf>& leaves, std::vector<size_t> taken,
                                       OpId end) {
  if (!sync.parameter_order)
    std::stable_sort(taken.begin(), taken.end(),
                     [&](size_t a, size_t b) { return leaves[a].ready > leaves[b].ready; });
  if (sync.close_before) return emptied_when_full(sync, leaves, taken, end);
  std::vector<GradientBucket> buckets = full_when_reached(sync, leaves, taken);
  if (sync.last_bucket_first) std::reverse(buckets.begin(), buckets.end());
  if (sync.kind == SyncKind::bucketed) launch_in_turn(buckets);
  return buckets;
}

std::vector<int64_t> sizes_of_calls(const GradientSyncDecl& sync, const std::vector<Leaf>& leaves,
                                    const GradientBucket& bucket, int64_t n) {
  const auto size = static_cast<int64_t>(bucket.elements);
  const int64_t padded = n * sync.bucket_multiple, block = n * sync.update_alignment;
  if (sync.bucket_multiple > 1) return {(size + padded - 1) / padded * padded};
  const Leaf& big = leaves[bucket.leaves[0]];
  const auto most = static_cast<int64_t>(bucket_limit(sync, big.stage, false) / size_of(big.dtype));
  if (bucket.leaves.size() > 1 || size <= most || block == 0) return {size};
  int64_t before = 0, all = 0;
  for (const Leaf& leaf : leaves)
    if (leaf.stage == big.stage && leaf.data == big.data && leaf.dtype == big.dtype) {
      if (leaf.parameter == big.parameter) before = all;
      all += static_cast<int64_t>(elements(leaf.shape));
    }
  const int64_t part = (all + block - 1) / block * (block / n);
  std::vector<int64_t> calls{0};
  for (int64_t at = 0; at < size;) {
    if (calls.back() > most) calls.push_back(0);
    const int64_t slice = std::min(size - at, part - (before + at) % part);
    calls.back() += slice;
    at += slice;
  }
  return calls;
}

}  // namespace s2t
