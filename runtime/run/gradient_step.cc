// The end of a step: each rank moves the parameters, or the parts of them, that are its own, and
// where ranks moved parts of the same parameter, they exchange them.
#include <algorithm>

#include "runtime/run/gradient_sync.h"

namespace s2t {
namespace {

Tensor zeros_like(const Tensor& t) {
  return Tensor(t.shape(), t.dtype());
}

}  // namespace

void GradientSync::step() {
  for (const auto& [p, gradient] : sums()) {
    Tensor change = scaled(gradient.data, -options_.learning_rate);
    if (parameters_.sharded(p)) {
      Tensor& part = parameters_.part(p);
      const Leaf& leaf = *std::find_if(leaves_.begin(), leaves_.end(),
                                       [&](const Leaf& l) { return l.parameter == p; });
      const AtomSet parts = leaf.data & ~copies(graph_);
      const int64_t n = graph_.mesh.size(parts);
      const int64_t mine = graph_.mesh.coordinate(exchange_.rank(), parts);
      part = add(part, rows_of(change, leaf, n, mine));
      continue;
    }
    Tensor& local = parameters_.local(p);
    if (!gradient.owned.empty()) {  // the others' parts come with the gather
      Tensor kept = zeros_like(change);
      const Tensor flat = change.reshaped({change.size()});
      Tensor out = kept.reshaped({change.size()});
      for (const Stretch& s : gradient.owned)
        paste(out, slice(flat, 0, s.begin, s.end - s.begin), 0, s.begin);
      change = out.reshaped(change.shape());
    }
    local = add(local, resized(change, local.shape()));
  }
}

// ZeRO: everybody sends the part that it updated.
void GradientSync::gather_updates() {
  if (graph_.sync.kind == SyncKind::zero3) return gather_persistent();
  if (graph_.sync.kind != SyncKind::zero1 && graph_.sync.kind != SyncKind::zero2) return;
  if (graph_.sync.update_alignment > 0) return gather_updates_at_once();
  if (graph_.sync.gather_before_use) return;  // the next step does
  for (int64_t round = 0; round < graph_.sync.update_rounds; ++round)
    for (const Bucket& b : buckets_)
      gather_updates(b, part_of(b, graph_.mesh.size(leaves_[b.leaves[0]].data)));
}

// Chunk by chunk of this rank, whichever began its backward first.
void GradientSync::in_order_of_stages(std::vector<std::vector<size_t>>& groups) const {
  std::stable_sort(groups.begin(), groups.end(), [&](const auto& a, const auto& b) {
    return leaves_[a[0]].stage < leaves_[b[0]].stage;
  });
}

// All parameters laid flat, padded so that each rank's part is a multiple of the alignment.
void GradientSync::gather_updates_at_once() {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf& leaf = leaves_[i];
    if (!leaf.data) continue;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      const Leaf& first = leaves_[group[0]];
      return first.stage == leaf.stage && first.data == leaf.data && first.expert == leaf.expert &&
             graph_.value(first.parameter).dtype == graph_.value(leaf.parameter).dtype;
    });
    if (same == groups.end())
      groups.push_back({i});
    else
      same->push_back(i);
  }
  in_order_of_stages(groups);
  for (const auto& group : groups) {
    const Bucket all = whole_leaves(group, leaves_);
    const auto size = static_cast<int64_t>(all.elements);
    const int64_t block = graph_.mesh.size(leaves_[group[0]].data) * graph_.sync.update_alignment;
    gather_updates(all, (size + block - 1) / block * graph_.sync.update_alignment);
  }
}

void GradientSync::gather_updates(const Bucket& bucket, int64_t part) {
  gather_part(bucket, leaves_, part, tag_for("step", bucket.leaves));
}

// Everybody has its part of a bucket's parameters right, and gets all of them.
void GradientSync::gather_part(const Bucket& bucket, const std::vector<Leaf>& leaves, int64_t part,
                               Tag tag) {
  const Leaf& first = leaves[bucket.leaves[0]];
  const int64_t n = graph_.mesh.size(first.data);
  std::map<size_t, Tensor> now;
  tag.members.clear();
  for (const size_t i : bucket.leaves) {
    now[i] = resized(parameters_.local(leaves[i].parameter), leaves[i].shape);
    tag.members.push_back(graph_.value(leaves[i].parameter).name);
  }
  tag.tensor = tag.members[0];
  const auto of = [&](size_t i) -> Tensor& { return now.at(i); };
  const int64_t mine = graph_.mesh.coordinate(exchange_.rank(), first.data);
  const Tensor all = exchange_.all_gather(
      slice(packed(bucket, part * n, of), 0, mine * part, part),
      family_over(graph_, first.data, graph_.value(first.parameter).expert), tag);
  unpack(all, bucket, of);
  for (const auto& [i, updated] : now) {
    Tensor& local = parameters_.local(leaves[i].parameter);
    local = resized(updated, local.shape());
  }
}

void GradientSync::gather_persistent() {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf& leaf = leaves_[i];
    if (!leaf.data || parameters_.sharded(leaf.parameter)) continue;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      const Leaf& first = leaves_[group[0]];
      return first.data == leaf.data && first.stage == leaf.stage &&
             graph_.value(first.parameter).dtype == graph_.value(leaf.parameter).dtype;
    });
    if (same == groups.end())
      groups.push_back({i});
    else
      same->push_back(i);
  }
  in_order_of_stages(groups);
  for (const auto& group : groups)
    for (const size_t i : group)  // a launch for each
      parameters_.exchange_rows({leaves_[i].parameter}, tag_for("step", {i}));
}

}  // namespace s2t
