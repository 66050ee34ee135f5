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

// The later of two moments of the backward, which visits ops from the last to the first.
OpId later(OpId a, OpId b);

// Of the leaves with `data`: the stages in their order, as Megatron goes through the chunks of a
// rank, and of each its buckets as they close. A bucket holds one stage, one set of axes and one
// type. It closes when it reaches its limit after a gradient was added; or, with `close_before`,
// when the next one would exceed it, and then experts' and other gradients, and those of parameters
// of different types, count together and are sent one after the other.
std::vector<Bucket> cut_into_buckets(const GradientSyncDecl& decl,
                                     const std::vector<GradientLeaf>& leaves);

// As the framework of `graph` fills them: by the parameters that it registers, if the model says
// which these are. Then dense ones come before those of experts, the stages in their order.
std::vector<Bucket> cut_into_buckets(const Graph& graph, const std::vector<GradientLeaf>& leaves);

// Elements of each call that all-reduces a bucket whole: one, unless it holds a gradient beyond the
// limit; such a one is cut where the flat gradients of `leaves`, padded to equal parts of `ranks`,
// pass from one rank's part to the next, and goes out as soon as cuts together exceed the limit
// (DeepSpeed's allreduce_and_scatter). A bucket that is padded itself (BF16_Optimizer) is one call.
std::vector<Count> whole_calls(const GradientSyncDecl& decl, const Bucket& bucket,
                               const std::vector<GradientLeaf>& leaves, int64_t ranks);

}  // namespace s2t
