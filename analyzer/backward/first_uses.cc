#include "analyzer/backward/first_uses.h"

#include <algorithm>
#include <set>

namespace s2t {
namespace {

bool reads(const Op& op, const Bucket& bucket) {
  return op.stage == bucket.leaves[0].stage &&
         std::any_of(bucket.leaves.begin(), bucket.leaves.end(), [&](const GradientLeaf& leaf) {
           return std::count(op.inputs.begin(), op.inputs.end(), leaf.parameter) > 0;
         });
}

bool of_one_kind(const Bucket& a, const Bucket& b) {
  return a.leaves[0].stage == b.leaves[0].stage && a.leaves[0].expert == b.leaves[0].expert;
}

}  // namespace

std::vector<FirstUse> first_uses(const Graph& graph, const std::vector<Bucket>& buckets) {
  std::vector<FirstUse> uses;
  std::set<size_t> sent, used;
  const auto send = [&](size_t b, size_t op) {
    if (sent.insert(b).second) uses.push_back({b, OpId(op)});
  };
  const bool by_chunk = graph.pipeline && graph.pipeline->chunks > 1;
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    for (size_t b = 0; by_chunk && b < buckets.size(); ++b)
      if (buckets[b].leaves[0].stage == graph.ops[o].stage) send(b, o);
    for (size_t b = buckets.size(); !by_chunk && b-- > 0;) {
      if (!reads(graph.ops[o], buckets[b]) || !used.insert(b).second) continue;
      send(b, o);
      if (b > 0 && of_one_kind(buckets[b - 1], buckets[b])) send(b - 1, o);
    }
  }
  return uses;
}

}  // namespace s2t
