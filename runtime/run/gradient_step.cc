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
      const int64_t n = graph_.mesh.size(leaf.data);
      const int64_t mine = graph_.mesh.coordinate(exchange_.rank(), leaf.data);
      part = add(part, rows_of(change, leaf, n, mine));
      continue;
    }
    Tensor& local = parameters_.local(p);
    if (!gradient.owned.empty()) {  // the others' parts come with the gather
      Tensor kept = zeros_like(change);
      const Stretch& s = gradient.owned[0];
      const Tensor flat = change.reshaped({change.size()});
      Tensor out = kept.reshaped({change.size()});
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
  for (const Bucket& b : buckets_) {
    const int64_t n = graph_.mesh.size(leaves_[b.leaves[0]].data);
    gather_updates(b.leaves, part_of(b, n));
  }
}

// All parameters laid flat, padded so that each rank's part is a multiple of the alignment.
void GradientSync::gather_updates_at_once() {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf& leaf = leaves_[i];
    if (!leaf.data) continue;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      const Leaf& first = leaves_[group[0]];
      return first.stage == leaf.stage && first.data == leaf.data &&
             graph_.value(first.parameter).dtype == graph_.value(leaf.parameter).dtype;
    });
    if (same == groups.end())
      groups.push_back({i});
    else
      same->push_back(i);
  }
  for (const auto& group : groups) {
    int64_t size = 0;
    for (const size_t i : group) size += static_cast<int64_t>(elements(leaves_[i].shape));
    const int64_t block = graph_.mesh.size(leaves_[group[0]].data) * graph_.sync.update_alignment;
    gather_updates(group, (size + block - 1) / block * graph_.sync.update_alignment);
  }
}

void GradientSync::gather_updates(const std::vector<size_t>& leaves, int64_t part) {
  const Leaf& first = leaves_[leaves[0]];
  const int64_t n = graph_.mesh.size(first.data);
  std::vector<Tensor> now;
  std::vector<const Tensor*> views;
  std::vector<Tensor*> back;
  for (const size_t i : leaves)
    now.push_back(resized(parameters_.local(leaves_[i].parameter), leaves_[i].shape));
  for (const Tensor& t : now) views.push_back(&t);
  const int64_t mine = graph_.mesh.coordinate(exchange_.rank(), first.data);
  const Tensor all = exchange_.all_gather(slice(flattened(views, part * n), 0, mine * part, part),
                                          family_of(leaves, first.data), tag_for("step", leaves));
  for (Tensor& t : now) back.push_back(&t);
  unflatten(all, back);
  for (size_t k = 0; k < now.size(); ++k) {
    Tensor& local = parameters_.local(leaves_[leaves[k]].parameter);
    local = resized(now[k], local.shape());
  }
}

void GradientSync::gather_persistent() {
  std::vector<std::pair<AtomSet, std::vector<size_t>>> groups;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf& leaf = leaves_[i];
    if (!leaf.data || parameters_.sharded(leaf.parameter)) continue;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return group.first == leaf.data && leaves_[group.second[0]].stage == leaf.stage &&
             graph_.value(leaves_[group.second[0]].parameter).dtype ==
                 graph_.value(leaf.parameter).dtype;
    });
    if (same == groups.end())
      groups.push_back({leaf.data, {i}});
    else
      same->second.push_back(i);
  }
  for (const auto& [data, leaves] : groups) {
    std::vector<TensorId> members;
    for (const size_t i : leaves) members.push_back(leaves_[i].parameter);
    parameters_.exchange_rows(members, tag_for("step", leaves));
  }
}

}  // namespace s2t
