// Flat buckets of gradients as the wrappers of frameworks cut them, on one stage.
//
// Known here: in which order gradients are taken and when a bucket is full. Written from the
// frameworks' sources: reducer.cpp (compute_bucket_assignment_by_size), DeepSpeed stage_1_and_2.py
// (reduce_independent_p_g_buckets_and_remove_grads). Not known here: what is sent, and to whom.
#pragma once

#include <vector>

#include "runtime/run/leaves.h"

namespace s2t {

struct GradientBucket {
  std::vector<size_t> leaves;  // indices
  Count elements = 0;
  bool closed = false;
  OpId ready;  // sent when this op's backward has run
};

// `taken`: those of `leaves` to be reduced, in the order of the parameters; `end`: the op whose
// backward runs last.
std::vector<GradientBucket> buckets_of(const GradientSyncDecl& sync,
                                       const std::vector<Leaf>& leaves, std::vector<size_t> taken,
                                       OpId end);

}  // namespace s2t
