#include "analyzer/backward/tied_leaves.h"

#include <fmt/format.h>

#include <set>

#include "analyzer/base/text.h"
#include "analyzer/graph/sync_defaults.h"

namespace s2t {
namespace {

void refuse_fully_sharded(const Graph& graph, const GradientLeaf& leaf) {
  if (graph.sync.kind != SyncKind::fsdp) return;
  refuse(graph, leaf, "tied-fsdp",
         fmt::format("parameter {} is used on several pipeline ranks, and fsdp shards it on each",
                     quoted(graph.value(leaf.parameter).name)),
         "a parameter of one pipeline rank", "Give each stage a parameter of its own.");
}

// Sharded synchronisation leaves each rank the gradient of its part, which only ranks with the same
// parts can add up.
void refuse_unused(const Graph& graph, const GradientLeaf& leaf,
                   const std::vector<GradientLeaf>& leaves, size_t holders) {
  const SyncKind kind = graph.sync.kind;
  const bool sharded =
      kind == SyncKind::zero1 || kind == SyncKind::zero2 || kind == SyncKind::zero3;
  std::set<int64_t> with_gradient;
  for (const GradientLeaf& other : leaves)
    if (other.parameter == leaf.parameter) with_gradient.insert(pipeline_rank(graph, other.stage));
  if (!sharded || with_gradient.size() == holders) return;
  refuse(
      graph, leaf, "tied-unused",
      fmt::format("{} pipeline ranks hold parameter {} and {} of them {} a gradient of it, which "
                  "sharded synchronisation would leave in parts",
                  holders, quoted(graph.value(leaf.parameter).name), with_gradient.size(),
                  with_gradient.size() == 1 ? "has" : "have"),
      "a gradient on each of them", "Let the loss depend on every use, or take \"bucketed\".");
}

// Over the data axes what was summed over the stages can be reduced, but what one stage has reduced
// cannot be added to what is not.
void refuse_reduced(const Graph& graph, const GradientLeaf& leaf) {
  const GradientSyncDecl& sync = graph.sync;
  const bool every = every_microbatch(sync);
  if (!sync.tied_first || sync.kind == SyncKind::none || !leaf.data || !in_backward(sync)) return;
  const char* by = every          ? sync.every_microbatch ? "\"every\": \"microbatch\""
                                                          : "\"every\": \"microbatch\", by default,"
                   : sync.overlap ? "\"overlap\": true"
                                  : "\"overlap\": true, by default,";
  throw UserError(
      graph.file,
      {{sync.pointer + "/tied",
        fmt::format("\"first\", but {} has gradients reduced in the backward already", by),
        "\"last\"",
        every ? "Or reduce once, behind the backward: \"every\": \"step\", \"overlap\": false."
              : "Or reduce behind the backward: \"overlap\": false.",
        "tied-first"}});
}

}  // namespace

std::vector<TiedLeaf> tied_leaves(const Graph& graph, const std::vector<GradientLeaf>& leaves) {
  std::vector<TiedLeaf> tied;
  std::set<TensorId> done;
  for (const GradientLeaf& leaf : leaves) {
    std::set<int64_t> ranks;
    for (const int stage : stages_of(graph, leaf.parameter))
      ranks.insert(pipeline_rank(graph, stage));
    if (ranks.size() < 2 || !done.insert(leaf.parameter).second) continue;
    refuse_fully_sharded(graph, leaf);
    refuse_unused(graph, leaf, leaves, ranks.size());
    refuse_reduced(graph, leaf);
    tied.push_back({&leaf, {ranks.begin(), ranks.end()}});
  }
  return tied;
}

}  // namespace s2t
