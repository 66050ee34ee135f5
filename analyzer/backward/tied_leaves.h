// Gradients of parameters that live on several pipeline ranks.
//
// Known here: which these are, and which of them cannot be added up in the way that the model asks
// for. Not known here: how and when they are (gradient_sync.h).
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/backward/gradient_leaves.h"

namespace s2t {

struct TiedLeaf {
  const GradientLeaf* leaf;    // the first of the parameter
  std::vector<int64_t> ranks;  // pipeline ranks that hold it, ascending
};

// In the order of `leaves`. UserError for one that cannot be synchronised so.
std::vector<TiedLeaf> tied_leaves(const Graph& graph, const std::vector<GradientLeaf>& leaves);

}  // namespace s2t
