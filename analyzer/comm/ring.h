// What the ranks of a ring say to each other inside one op whose operands pass by (rule/mode.h).
//
//   forward    n-1 exchanges: each rank hands the operands that it saw last to the next rank. Those
//              that it saw at the end, its next rank's own, are kept for the backward.
//   backward   n exchanges the other way: first the operands; then operands and, in the same
//              message, the gradients of those sent before, as summed up so far; at last gradients
//              alone, which so come home.
//
// The operands of one rank lie in one buffer (keys, then values). All of it runs if any operand of
// the op requires grad. Source: TransformerEngine attention/dot_product_attention/
// context_parallel.py, AttnFuncWithCPAndKVP2P and flash_attn_p2p_communicate. Not known here: what
// the op computes, and bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/comm/collective.h"

namespace s2t {

// Whether an exchange's send and receive are one launch: never, always, or in rings of two only
// (where the two are each other's neighbour on both sides).
enum class RingLaunch : uint8_t { pairs, single, batched };
constexpr bool launched_together(RingLaunch launch, int64_t n) {
  return launch == RingLaunch::batched || (launch == RingLaunch::pairs && n == 2);
}

// How operands pass by: as messages between neighbours, or in collectives of PyTorch's ring.
enum class RingKind : uint8_t {
  messages,   // Transformer Engine
  gathered,   // PyTorch, rotate method allgather
  exchanged,  // PyTorch, rotate method alltoall
};

// One exchange of a rank: a message to one neighbour, and an equal one from the other. Ranks at even
// positions send first, the others receive first.
struct RingExchange {
  int64_t to = 1;  // position of the neighbour minus ours: +1 or -1
  bool operands = true, gradients = false;

  bool operator==(const RingExchange&) const = default;
};
std::vector<RingExchange> ring_forward(int64_t n);
std::vector<RingExchange> ring_backward(int64_t n);

// The same of PyTorch's ring attention, in order: one call of the whole group each.
//
//   gathered    the operands of all ranks at once; in the backward again, and gradients go on to the
//               next rank n times, until they are home
//   exchanged   operands too go on to the next rank, n-1 times each way
//
// What goes on is an all-to-all of which each rank sends all to one. Gradients are summed up, and
// sent, in float32. Source: torch/distributed/tensor/experimental/_attention.py 2.6,
// _templated_ring_attention, _templated_ring_attention_backward, permute_tensor.
struct RingCall {
  Collective op = Collective::all_to_all;
  bool gradients = false;

  bool operator==(const RingCall&) const = default;
};
std::vector<RingCall> ring_calls_forward(RingKind kind, int64_t n);
std::vector<RingCall> ring_calls_backward(RingKind kind, int64_t n);

}  // namespace s2t
