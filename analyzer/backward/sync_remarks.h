// What a reader should know about gradients that are not, or cannot be, summed where the model says
// so. Not known here: the collectives themselves.
#pragma once

#include <vector>

#include "analyzer/backward/buckets.h"
#include "analyzer/backward/derive.h"

namespace s2t {

std::vector<Remark> remarks_on_sync(const Graph& graph, const Backward& backward,
                                    const std::vector<GradientLeaf>& leaves);

}  // namespace s2t
