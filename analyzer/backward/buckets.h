// The flat buckets in which gradients are sent together.
//
// Known here: the order in which gradients are taken and when a bucket closes (PyTorch's
// reducer.cpp, compute_bucket_assignment_by_size; DeepSpeed's stage_1_and_2.py,
// reduce_independent_p_g_buckets_and_remove_grads; Megatron's param_and_grad_buffer.py). Not known
// here: collectives, groups, shards.
#pragma once

#include <vector>

#include "analyzer/backward/gradient_leaves.h"

namespace s2t {

struct Bucket {
  std::vector<GradientLeaf> leaves;
  Count elements = 0;  // with what aligns its parameters, without what pads its end
  OpId sent;  // op behind whose backward it is full; invalid: at the end of the stage's backward
};

// Of the leaves with `data`, in the order in which they close. A bucket holds one stage, one set of
// axes and one type. It closes when it reaches its limit after a gradient was added; or, with
// `close_before`, when the next one would exceed it, and then experts' and other gradients count
// together and are sent one after the other.
std::vector<Bucket> cut_into_buckets(const GradientSyncDecl& decl,
                                     const std::vector<GradientLeaf>& leaves);

// As the framework of `graph` fills them: by the parameters that it registers, if the model says
// which these are. Then dense ones come before those of experts, the stages in their order.
std::vector<Bucket> cut_into_buckets(const Graph& graph, const std::vector<GradientLeaf>& leaves);

}  // namespace s2t
