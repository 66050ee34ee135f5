// Ops that treat a gradient on the axes where they are redundant in a way of their own.
#pragma once

#include "analyzer/graph/graph.h"

namespace s2t {

// Hands it on as it comes, whole or Partial: a pin, and a dispatch that takes its rows of gathered
// tokens. What made the replicas reduces it.
inline bool passes_gradient(const Op& op) {
  return op.redistributes() || flag_or(op.attributes, "gathered", false);
}

// A pin that gathers for ranks which each use a part: what they have of the gradient is a term, also
// where it is that of a slice (Megatron, gather_from_sequence_parallel_region).
inline bool adds_gradients(const Op& op) {
  return op.redistributes() && flag_or(op.attributes, "gathered", false);
}

}  // namespace s2t
