// How far the unsharded model strays by itself from float64 when its numbers are kept in a type.
//
// Where large terms cancel (a bias in front of a softmax, a mean of normalised rows), or a relu has
// its kink, a run may be right and yet differ from float64 by far more than the type's precision.
// How far is measured on the unsharded model: a few runs in the type, in which every number that an
// op makes is moved by up to a unit in its last place, as another order of its sum would (Monte
// Carlo arithmetic, Parker 1997); the greatest distance counts. Known here: the unsharded model. Not
// known here: sharded runs, and how many times as far they may stray (checks.cc).
#pragma once

#include "runtime/run/reference.h"

namespace s2t {

class Rounding {
 public:
  // `exact`: the model in float64.
  Rounding(const Graph& graph, const Forward& forward, const Reference& exact, DType precision)
      : graph_(graph), forward_(forward), exact_(exact), precision_(precision) {}

  // Greatest difference of an element. The runs are made when the first is asked for.
  double of_value(int64_t microbatch, TensorId value);
  double of_gradient(TensorId parameter);
  double of_input_gradient(int64_t microbatch, TensorId input);

 private:
  void measure();
  void measure(const Reference& run);

  const Graph& graph_;
  const Forward& forward_;
  const Reference& exact_;
  const DType precision_;
  bool measured_ = false;
  std::vector<std::vector<double>> values_;                  // [microbatch][value]
  std::map<TensorId, double> gradients_;                     // of parameters
  std::vector<std::map<TensorId, double>> input_gradients_;  // per microbatch
};

}  // namespace s2t
