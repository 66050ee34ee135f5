// Pipeline schedules: which rank does what in which order.
//
// Known here: ranks of one pipeline group, chunks, microbatches, and the order in which each rank
// issues its forwards, backwards and point-to-point (P2P) operations. Not known here: the graph,
// the tensors of a boundary (an activation may be several tensors), bytes, global ranks and time.
//
// Notation in text: `F3` forward of microbatch 3, `B3` its backward, `sf` / `rf` send / receive a
// forward activation, `sb` / `rb` send / receive a backward gradient, `[sf|rb]` operations launched
// together, `F3.1` microbatch 3 of chunk 1. Stage s lives on pipeline rank s % ranks, as its chunk
// s / ranks.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace s2t {

enum class Drain { forward, reversed };  // GPipe: backwards in order 0..m-1, or m-1..0

// How the P2P operations of one exchange are launched.
enum class Batching {
  single,      // one by one, waiting for each exchange before computing on
  batched,     // one group call per exchange, one kernel (Megatron's batch_p2p_comm, torch)
  overlapped,  // one by one, and computing goes on (Megatron's overlap_p2p_comm; interleaved only)
};

// Where frameworks implement one schedule differently.
enum class PipelineVariant {
  megatron_08,  // Megatron core 0.8
  megatron,     // Megatron core from 0.10: interleaving with a microbatch group size
  torch,        // torch.distributed.pipelining 2.6
};

struct PipelinePlan {
  std::string schedule = "1f1b";  // a name of `schedules()`
  int ranks = 1;                  // size of the pipeline group, p
  int chunks = 1;                 // model chunks per rank, V; 1 unless interleaved
  int microbatches = 1;           // per step, m
  int group = 0;                  // interleaved: contiguous microbatches per chunk, N; 0: ranks
  Drain drain = Drain::forward;
  Batching batching = Batching::batched;
  PipelineVariant variant = PipelineVariant::megatron;
  bool forward_only = false;  // inference: no backward, no gradients

  int stages() const { return ranks * chunks; }
  bool operator==(const PipelinePlan&) const = default;
};

enum class ActionKind {
  forward,
  backward,
  send_activation,
  recv_activation,
  send_gradient,
  recv_gradient,
};

struct Action {
  ActionKind kind = ActionKind::forward;
  int stage = 0;  // of the rank that acts: for a receive, the stage that will read the value
  int chunk = 0;  // stage / ranks
  int microbatch = 0;
  int batch = -1;  // dense per rank, shared by P2P operations launched together; -1: compute
  int peer = -1;   // pipeline rank at the other end; -1: compute

  bool operator==(const Action&) const = default;
};

inline bool is_send(ActionKind k) {
  return k == ActionKind::send_activation || k == ActionKind::send_gradient;
}
inline bool is_recv(ActionKind k) {
  return k == ActionKind::recv_activation || k == ActionKind::recv_gradient;
}
inline bool is_compute(ActionKind k) {
  return k == ActionKind::forward || k == ActionKind::backward;
}

using ActionList = std::vector<Action>;         // one rank, in issue order
using RankedActions = std::vector<ActionList>;  // by pipeline rank

// One row per schedule. A new schedule is one file and one row in pipeline.cc.
class RankScript;
struct ScheduleDef {
  std::string_view name;
  std::string_view description;  // one line
  std::string_view source;       // where the order was read
  bool chunked;                  // takes more than one chunk per rank
  std::vector<Batching> batchings;
  void (*refuse)(const PipelinePlan&, std::vector<std::string>& reasons);
  void (*write)(const PipelinePlan&, RankScript&);
};
std::span<const ScheduleDef> schedules();
const ScheduleDef* find_schedule(std::string_view name);  // nullptr: no such schedule

// Why a plan cannot run, in a Megatron user's words; empty if it can.
std::vector<std::string> refusals(const PipelinePlan& plan);

// What each rank issues. Throws Fault if the plan has refusals. Linear in ranks x microbatches x
// chunks. Operations that would stay on one rank are left out; in a batch, sends come first.
RankedActions build_schedule(const PipelinePlan& plan);

enum class Labels { brief, numbered };  // P2P as `sf` or as `sf3`
std::string to_string(const Action& action, Labels labels = Labels::numbered);
// "rf F0 [sf|rb] B0"
std::string to_string(const ActionList& actions, Labels labels = Labels::brief);

std::string_view name(Batching batching);
std::string_view name(Drain drain);
std::string_view name(PipelineVariant variant);

// Number of messages and launches of one rank, counted in its list.
struct PipelineCounts {
  int messages = 0;  // sends and receives
  int sends = 0;
  int kernels = 0;           // one per batch of P2P operations
  int peak_activations = 0;  // most forwards not yet backwarded, in chunks of one stage

  bool operator==(const PipelineCounts&) const = default;
};
PipelineCounts count(const ActionList& actions);

}  // namespace s2t
