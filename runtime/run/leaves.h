// The gradients that a rank has to synchronise: one per parameter, stage and way of being held.
//
// Known here: over which axes each is still a sum of terms, when it is complete, and what has
// accumulated. Not known here: buckets, shards, when anything is sent.
#pragma once

#include <functional>
#include <vector>

#include "runtime/run/exchange.h"
#include "runtime/run/shard.h"
#include "runtime/tape/tape.h"

namespace s2t {

struct Leaf {
  TensorId parameter;
  int stage = 0;
  Layout held;                 // as it arrives
  AtomSet data = 0;            // the synchronisation reduces over these
  AtomSet model = 0;           // terms on model axes of one loss: reduced once per step
  OpId ready;                  // complete when this op's backward has run
  DType dtype = DType::f32;    // reduced in this type
  DType stored = DType::f32;   // the parameter's
  Shape shape;                 // on one rank, rounded up
  Tensor fresh;                // accumulated and not reduced
  Tensor total;                // reduced
  std::vector<Stretch> owned;  // of `total`; empty: all
  Layout after;                // how `total` is held
  bool tied = false;           // other stages have this parameter too
  bool expert = false;         // reduced in groups of the experts, whichever ranks these hold
};

// Those of one stage, in the order of the parameters, given the ops whose backward will run.
std::vector<Leaf> leaves_of_stage(const Graph& graph, const Forward& forward, int stage,
                                  const std::vector<OpId>& running);

// Parameters with a gradient on another pipeline rank only, of those that `holds` says are here:
// their gradient buffers exist all the same, and zeros of them enter the sum over the pipeline
// ranks. Source: Megatron, main_grad of a shared embedding.
std::vector<Leaf> silent_leaves(const Graph& graph, const Forward& forward,
                                const std::vector<Leaf>& leaves,
                                const std::function<bool(TensorId)>& holds);

// Number of ranks over which gradients are averaged: all data-parallel ones, for experts too.
int64_t mean_divisor_of_sync(const Graph& graph);

// Tensors laid flat, one after the other, and back.
Tensor flattened(const std::vector<const Tensor*>& tensors);
void unflatten(const Tensor& flat, const std::vector<Tensor*>& tensors);

// Axes on which each part of a fully sharded parameter lives several times: HSDP.
AtomSet copies(const Graph& graph);

}  // namespace s2t
