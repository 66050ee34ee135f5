// The unsharded model on one rank: what a run must come to.
//
// Written as plainly as it can be: all ops forward, all ops backward, no tape, no layouts, in
// float64 unless asked otherwise. It shares the op kernels with the run and nothing else.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "analyzer/forward/plan.h"
#include "runtime/tensor/tensor.h"

namespace s2t {

struct Reference {
  std::vector<std::vector<Tensor>> values;                  // [microbatch][value]
  std::map<TensorId, Tensor> parameter_gradients;           // summed over microbatches
  std::vector<std::map<TensorId, Tensor>> input_gradients;  // per microbatch
};

// `seed`: not 0 moves every number that an op makes by up to a unit in its last place, at random;
// another seed, other numbers.
Reference run_reference(const Graph& graph, const Forward& forward, bool integers,
                        DType precision = DType::f64, unsigned seed = 0);

// Whether sums of this model's integers stay exact: only ops that keep integers (times a power of
// two), and float32 gives the very numbers that float64 does.
bool sums_are_exact(const Graph& graph, const Forward& forward);
bool may_sum_exactly(const Graph& graph);  // by its ops and types alone; quick

}  // namespace s2t
