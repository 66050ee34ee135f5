// The one interface to a process group, and to a rank's place among all ranks.
//
// Known here: how a rank talks to its group, whatever carries the words. Not known here: threads,
// MPI, NCCL, and why anything is sent. A backend needs `issue` for send and recv only: every
// collective it does not carry out itself has a default built on messages (`by_messages`).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/call.h"
#include "runtime/comm/error.h"
#include "runtime/device/device.h"

namespace s2t {

// What the caller says about its next calls. Shown in fault reports, in recordings and as the name
// of profiler ranges; it never changes what is sent.
struct Annotation {
  std::string phase;  // "forward", "grad_sync", ...
  std::string label;  // "event 12 tp0"

  bool operator==(const Annotation&) const = default;
};

// A process group as one of its members sees it. Ranks and peers are positions in the group, 0 to
// size-1, in the order of the list that made it. Pointers are the device's; counts are elements
// (see call.h). Calls block until the buffers may be reused, or, on a stream, until that is in
// stream order. Every call may throw CommError, after which the world is dead.
//
// In place is allowed as in NCCL: in == out for all_reduce, broadcast, reduce; in == out + rank
// * count for all_gather; out == in + rank * count for reduce_scatter. Never for all_to_all.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual std::span<const Rank> ranks() const = 0;  // global ranks of the members, in group order
  virtual const std::string& name() const = 0;
  virtual Device& device() = 0;
  int size() const { return static_cast<int>(ranks().size()); }

  // Sends and receives between the two are posted together at `group_end`, and only there wait.
  // Without a batch a send waits for its receiver. No collective may stand in a batch.
  virtual void group_begin() = 0;
  virtual void group_end() = 0;

  // Carries out one call; the methods below only fill in its fields.
  virtual void issue(const Call& call) = 0;

  void all_reduce(const void* in, void* out, Count count, DType dtype, ReduceOp op = ReduceOp::sum);
  void all_gather(const void* in, void* out, Count send_count, DType dtype);
  void reduce_scatter(const void* in, void* out, Count recv_count, DType dtype,
                      ReduceOp op = ReduceOp::sum);
  void all_to_all(const void* in, std::span<const Count> sends, void* out,
                  std::span<const Count> recvs, DType dtype);
  void broadcast(const void* in, void* out, Count count, DType dtype, int root);
  void reduce(const void* in, void* out, Count count, DType dtype, ReduceOp op, int root);
  void send(const void* in, Count count, DType dtype, int to);
  void recv(void* out, Count count, DType dtype, int from);
  void barrier();
};

// Throws Fault for a call that can never be right: a peer outside the group, splits of the wrong
// length, a null buffer with a count, a reduction without meaning, a collective inside a batch.
void check(const Call& call, int rank, int size, bool in_batch);

// Throws Fault unless a group has a name and distinct ranks of a world of `world_size`.
void check_group(const std::string& name, const std::vector<Rank>& ranks, int world_size);

// The defaults: carries out a collective with nothing but send, recv and a batch of `group`.
// Reductions add in rank order, so every rank gets the same bits.
void by_messages(Communicator& group, const Call& call);

// A rank's place in the world. Lives on that rank's thread; communicators must not outlive it.
class World {
 public:
  virtual ~World() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;
  virtual Device& device() = 0;

  // Called by every rank, for every group of the world, in the same order: members get their
  // communicator, others null.
  virtual std::unique_ptr<Communicator> create_group(const std::string& name,
                                                     const std::vector<Rank>& ranks) = 0;

  // Ends the work of all ranks: their calls throw CommError(cancelled) with this reason. Throws it
  // here as well.
  virtual void abort(const std::string& reason) = 0;

  // Throws if the world is already dead; for long stretches without communication.
  virtual void check_alive() = 0;

  virtual void annotate(Annotation annotation) = 0;
  virtual const Annotation& annotation() const = 0;
};

std::vector<Rank> ranks_of_world(const World& world);  // 0, 1, ..., size-1

}  // namespace s2t
