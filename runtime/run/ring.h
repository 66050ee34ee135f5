// Attention in a ring, as one of its ranks does it: queries stay, keys and values of all ranks pass by
// and are attended to block by block.
//
//   o = sum over blocks of w o_block,   w = exp(lse_block - lse),   lse = log sum exp(lse_block)
//
// In the backward a block's kernel sees w times the gradient of o and the whole o, which makes its
// softmax that of all keys; what it says about the block's keys and values travels on with them,
// wanted or not.
// Blocks that a causal mask hides whole (of keys behind all of this rank's queries) pass by unread; a
// query that sees no key of a block has w = 0 there. Another axis may cut the queries, too. Source:
// TransformerEngine context_parallel.py, AttnFuncWithCPAndKVP2P; flash attention's two passes.
// Known here: n, the own position, local kernels. Not known here: groups, and how words travel.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "analyzer/comm/ring.h"
#include "runtime/tensor/kernels.h"

namespace s2t {

class RingAttention {
 public:
  // What a message carries.
  struct Cargo {
    bool operands = false, gradients = false;
  };
  // Hands `out` to the neighbour at the own position + `to`, and returns as much of the other one.
  using Pass = std::function<Tensor(const Tensor& out, int64_t to, Cargo cargo)>;

  // What all ranks have, in their order. For the kind `gathered`.
  using Gather = std::function<Tensor(const Tensor& mine)>;

  // `call` has the windows of this rank, of queries and of keys.
  RingAttention(OpCall call, Device& device, int64_t n, int64_t me, Pass pass,
                RingKind kind = RingKind::messages, Gather gather = {});

  Tensor forward(std::span<const Tensor> qkv);
  std::vector<std::optional<Tensor>> backward(std::span<const Tensor> qkv, const Tensor& o,
                                              const Tensor& gradient,
                                              const std::vector<bool>& wanted);

 private:
  struct Block {
    OpCall call;
    std::vector<Tensor> qkv;  // float64
    std::vector<double> lse;  // per query
  };
  Tensor packed(std::span<const Tensor> qkv) const;
  std::optional<Block> block(std::span<const Tensor> qkv, const Tensor& kv, int64_t owner) const;
  std::vector<double> lse_of(const Block& block) const;
  Tensor next(const Tensor& seen, int64_t step);
  struct Contribution {
    Tensor dq, dkv;
  };
  std::optional<Contribution> contribution(std::span<const Tensor> qkv, const Tensor& kv,
                                           int64_t owner, const Tensor& o, const Tensor& gradient,
                                           DType sum) const;
  std::pair<Tensor, Tensor> against_the_ring(std::span<const Tensor> qkv, const Tensor& o,
                                             const Tensor& gradient);
  std::pair<Tensor, Tensor> along_the_ring(std::span<const Tensor> qkv, const Tensor& o,
                                           const Tensor& gradient);

  OpCall call_;
  Device& device_;
  const int64_t n_, me_;
  Pass pass_;
  RingKind kind_;
  Gather gather_;
  Tensor all_;               // gathered
  Tensor last_;              // keys and values that came last in the forward
  std::vector<double> lse_;  // per query, of all blocks
};

}  // namespace s2t
