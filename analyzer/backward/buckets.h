// Gradients of parameters as they wait to be synchronised, and the flat buckets that are sent
// together.
//
// Known here: the order in which gradients are taken and when a bucket closes (PyTorch's
// reducer.cpp, compute_bucket_assignment_by_size; DeepSpeed's stage_1_and_2.py,
// reduce_independent_p_g_buckets_and_remove_grads). Not known here: collectives, groups, shards.
#pragma once

#include <vector>

#include "analyzer/graph/graph.h"

namespace s2t {

// One parameter on one stage, with the gradient that arrived there.
struct GradientLeaf {
  TensorId parameter;
  int stage = 0;
  Layout gradient;
  Layout wanted;              // the parameter's own layout
  AtomSet data = 0;           // reduced by the synchronisation, partial here
  AtomSet model = 0;          // model axes of the global convention, partial here
  OpId ready;                 // op after whose backward it is complete
  DType dtype = DType::f32;   // reduced in this type
  DType stored = DType::f32;  // the parameter's
  Shape local;                // of the gradient on one rank
  bool tied = false;          // the parameter lives on several stages
};

struct Bucket {
  std::vector<GradientLeaf> leaves;
  Count elements = 0;
  OpId sent;  // op behind whose backward it is full; invalid: at the end of the stage's backward
};

// Of the leaves with `data`, in the order in which they close. A bucket holds one stage, one set of
// axes and one type. It closes when it reaches its limit after a gradient was added; or, with
// `close_before`, when the next one would exceed it, and then experts' and other gradients count
// together and are sent one after the other.
std::vector<Bucket> cut_into_buckets(const GradientSyncDecl& decl,
                                     const std::vector<GradientLeaf>& leaves);

}  // namespace s2t
