// The backward pass by duality: no op has a backward rule, only layouts have duals.
//
// Ops are visited in exact reverse forward order. Contributions of equal layout to a value's
// gradient add first, then convert once to the producer's cotangent port, right before the
// producer's backward; contributions of differing layouts are each converted, then added. On a
// `per_rank` model axis and on data axes only duals of forward collectives run. A parameter's
// gradient is left as it arrives: how it becomes whole is the gradient synchronisation's business.
#pragma once

#include <vector>

#include "analyzer/backward/needs.h"
#include "analyzer/forward/plan.h"

namespace s2t {

// One thing the backward does, in order.
struct BackwardStep {
  enum class Kind : uint8_t { gradient, regather, op };
  Kind kind = Kind::op;
  OpId op;                    // the op whose backward this precedes (or is)
  TensorId value;             // gradient, regather: whose
  Layout from, to;            // gradient, regather
  std::vector<Step> steps;    // gradient, regather
  int conversion = -1;        // regather: the forward conversion that is repeated
  std::vector<OpId> sources;  // gradient: ops whose backward contributed
  bool fused = false;         // issued although nothing needs it (fused column linear)
};

// Gradients of one value that have the same layout and come through the same forward conversion:
// they add before anything is converted.
struct Contribution {
  Layout layout;
  std::vector<OpId> sources;  // ops whose backward contributed, in that order
  int conversion = -1;        // the forward conversion whose dual this needs; -1: none
};

struct Backward {
  std::vector<BackwardStep> steps;
  std::vector<std::vector<Contribution>>
      leaf_gradients;  // per value: how a leaf's gradient arrives
  std::vector<Remark> remarks;
};

Backward derive_backward(const Graph& graph, const Forward& forward, const Needs& needs);

}  // namespace s2t
