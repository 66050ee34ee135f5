// Gradients of parameters as the backward leaves them: one per parameter and pipeline rank, with the
// axes over which it is still a sum of terms.
//
// Known here: which axes a parameter's gradient has to be reduced over, and what cannot be reduced
// as one. Not known here: how and when that happens (gradient_sync.h).
#pragma once

#include <string>
#include <vector>

#include "analyzer/backward/derive.h"

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
  bool expert = false;        // reduced in groups of the experts', whichever ranks these hold
};

// In the order of the model's parameters. UserError for a parameter that a rank would have to reduce
// in two ways: used by two chunks, or with gradients of two layouts.
std::vector<GradientLeaf> gradient_leaves(const Graph& graph, const Backward& backward);

// What is found of a leaf's parameter cannot be synchronised so.
[[noreturn]] void refuse(const Graph& graph, const GradientLeaf& leaf, const std::string& slug,
                         const std::string& found, const std::string& expected,
                         const std::string& advice);

// Where a stage lives; 0 without a pipeline.
int64_t pipeline_rank(const Graph& graph, int stage);

// Parameters in model order; stages that use one, ascending.
std::vector<TensorId> parameters_of(const Graph& graph);
std::vector<int> stages_of(const Graph& graph, TensorId parameter);

// Atoms over which a parameter's gradient is to be reduced by this layer.
AtomSet sync_atoms(const Graph& graph, TensorId parameter);

}  // namespace s2t
