// The numbers in a model's leaves: the same on every rank and every machine, from the leaf's name.
#pragma once

#include "analyzer/graph/graph.h"
#include "runtime/tensor/tensor.h"

namespace s2t {

// The whole of a leaf. Parameters are the same in every microbatch. Floats are small (a row of a
// weight has length about 1), or, with `integers`, -2 to 2, so that short sums are exact. Integer
// leaves are row numbers of whatever table they look up.
Tensor leaf_data(const Graph& graph, TensorId leaf, int64_t microbatch, bool integers);

}  // namespace s2t
