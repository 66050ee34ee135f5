// Flat buckets of gradients as the wrappers of frameworks cut them, on one stage.
//
// Known here: in which order gradients are taken, where in a bucket each lies, and when it is full.
// Written from the frameworks' sources: reducer.cpp (compute_bucket_assignment_by_size), DeepSpeed
// stage_1_and_2.py (reduce_independent_p_g_buckets_and_remove_grads), Megatron
// param_and_grad_buffer.py (_ParamAndGradBuffer). Not known here: what is sent, and to whom.
#pragma once

#include <functional>
#include <vector>

#include "runtime/run/leaves.h"

namespace s2t {

// A stretch of a gradient that lies at `at` in a bucket.
struct Piece {
  size_t leaf = 0;
  Stretch of;
  int64_t at = 0;
};

struct GradientBucket {
  std::vector<size_t> leaves;  // indices
  std::vector<Piece> pieces;
  Count elements = 0;
  OpId ready;  // sent when this op's backward has run
};

// Gradients laid one behind the other.
GradientBucket whole_leaves(const std::vector<size_t>& taken, const std::vector<Leaf>& leaves);

// The pieces of a bucket as one flat tensor of `size` elements, and back; `of` says whose.
using OfLeaf = std::function<Tensor&(size_t leaf)>;
Tensor packed(const GradientBucket& bucket, int64_t size, const OfLeaf& of);
void unpack(const Tensor& flat, const GradientBucket& bucket, const OfLeaf& of);

// `taken`: those of `leaves` to be reduced, in the order of the parameters; `end`: the op whose
// backward runs last.
std::vector<GradientBucket> buckets_of(const GradientSyncDecl& sync,
                                       const std::vector<Leaf>& leaves, std::vector<size_t> taken,
                                       OpId end);

// The same of a stage whose framework registers its parameters itself (Megatron), the dense ones
// first.
std::vector<GradientBucket> buckets_of_registered(const Graph& graph,
                                                  const std::vector<Leaf>& leaves,
                                                  const std::vector<size_t>& taken, int stage);

// Elements of the calls in which a bucket is all-reduced whole, of n ranks: stage_1_and_2.py,
// average_tensor and allreduce_and_scatter; bf16_optimizer.py, _flatten_dense_tensors_aligned.
std::vector<int64_t> sizes_of_calls(const GradientSyncDecl& sync, const std::vector<Leaf>& leaves,
                                    const GradientBucket& bucket, int64_t n);

}  // namespace s2t
