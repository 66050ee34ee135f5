// Which gradients a step computes at all: autograd's reachability, before any layout.
//
// A value needs a gradient iff it depends on a leaf that requires grad (or on a received
// activation) and the loss depends on it; integer tensors and operands marked `stop` cut. Source:
// PyTorch autograd (a node runs iff some input requires grad and it is reached from the loss).
#pragma once

#include <string>
#include <vector>

#include "analyzer/graph/graph.h"

namespace s2t {

struct Needs {
  std::vector<bool> requires_grad;  // per value: a trainable leaf is upstream
  std::vector<bool> reached;        // per value: the loss depends on it differentiably
  std::vector<bool> needed;         // both

  bool operator==(const Needs&) const = default;
};

// With `everything`, as if every floating-point leaf required grad: the difference to the real
// needs is what autograd prunes.
Needs find_needed_gradients(const Graph& graph, bool everything = false);

// "x does not require grad": the leaves upstream of a value that decide it needs no gradient.
std::string why_pruned(const Graph& graph, const Needs& needs, TensorId value);

}  // namespace s2t
