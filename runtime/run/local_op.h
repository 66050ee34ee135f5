// One op of a graph as one rank runs it: its kernel call, and what a run adds to it.
//
// Known here: the divisor of a mean (`loss_scale`), one dropout mask per op and microbatch, and
// that routing decides which tokens an expert sees whatever the router computed. Not known here:
// other ranks; a ring's messages are somebody else's.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "analyzer/forward/plan.h"
#include "runtime/run/ring.h"
#include "runtime/run/routed_rows.h"
#include "runtime/tensor/kernels.h"

namespace s2t {

class LocalOp {
 public:
  // As `rank` of the mesh runs it in the modes of the plan, by the kernels of its device.
  LocalOp(const Graph& graph, const Forward& forward, OpId op, Rank rank, int64_t microbatch,
          Device& device);
  // Unsharded, on the host.
  LocalOp(const Graph& graph, const Forward& forward, OpId op, int64_t microbatch);

  // Its keys and values pass by other ranks.
  void pass_by(int64_t ranks, int64_t me, RingAttention::Pass pass, RingKind kind,
               RingAttention::Gather gather) {
    ring_.emplace(call_, device_, ranks, me, std::move(pass), kind, std::move(gather));
  }
  bool passes_by() const { return ring_.has_value(); }

  std::vector<Tensor> forward(std::span<const Tensor> inputs);
  std::vector<std::optional<Tensor>> backward(std::span<const Tensor> inputs,
                                              std::span<const Tensor> outputs,
                                              std::span<const std::optional<Tensor>> gradients,
                                              const std::vector<bool>& wanted);

 private:
  void prepare(const Graph& graph, const Forward& forward, OpId op, int64_t microbatch);
  size_t routed() const;  // the operand that says who goes where
  std::vector<Tensor> masked(std::span<const Tensor> inputs) const;
  std::vector<Tensor> moved(std::span<const Tensor> inputs) const;

  Device& device_;
  const Kernels& kernels_;
  OpCall call_;
  std::optional<Tensor> mask_;  // of operand 1, the routing weights
  std::optional<RingAttention> ring_;
};

// Ops whose result is a mean over all elements of operand 0.
bool is_mean(const Op& op);

// The divisor of such an op on every rank, and how many times too large the sum of the ranks'
// results is against the mean over all elements.
int64_t mean_divisor(const Graph& graph, const Forward& forward, OpId op);
double mean_excess(const Graph& graph, const Forward& forward, OpId op);

// May a gradient flow into an operand at all?
bool carries_gradient(const Graph& graph, const Op& op, size_t operand);

// Per value: does the loss depend on it by way of operands that carry gradients?
std::vector<bool> reached_from_loss(const Graph& graph);

Tensor times(const Tensor& a, const Tensor& b);  // elementwise, in the dtype of `a`
Tensor scaled(const Tensor& a, double factor);

}  // namespace s2t
