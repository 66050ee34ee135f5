// Do the sends and receives of a schedule meet? A proof, for arbitrary action lists.
//
// Semantics: between two ranks the k-th send pairs with the k-th receive (NCCL has no tags); an
// operation is done when both ends have issued it (rendezvous, no buffering); the operations of one
// batch are issued together; a rank goes on when all of them are done. A schedule that passes here
// also runs under any weaker rule (buffered sends, asynchronous launches). Not known here: where
// the lists came from, and what an operation costs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/schedule/pipeline.h"

namespace s2t {

struct ActionRef {
  int rank = -1;
  int index = -1;  // in that rank's list

  bool valid() const { return rank >= 0; }
  bool operator==(const ActionRef&) const = default;
};

// The other end of every P2P action; invalid for compute.
using Pairing = std::vector<std::vector<ActionRef>>;

// One rank that waits in one action for another rank.
struct Wait {
  ActionRef at;
  Action action;

  bool operator==(const Wait&) const = default;
};

struct ScheduleFault {
  enum class Kind {
    malformed,  // peer is no other rank of the pipeline
    unpaired,   // a send without a receive, or a receive without a send
    mispaired,  // the k-th send and the k-th receive are different messages
    deadlock,   // ranks wait for each other in a circle
  };
  Kind kind = Kind::deadlock;
  std::vector<Wait> waits;  // deadlock: the circle, each waiting for the rank of the next
  std::string text;

  bool operator==(const ScheduleFault&) const = default;
};

// Fills `pairing`; nothing if every message has two equal ends.
std::optional<ScheduleFault> pair_up(const RankedActions& ranks, Pairing& pairing);

// Nothing if every rank reaches the end of its list; then `pairing` is filled. Linear in the number
// of actions.
std::optional<ScheduleFault> check_schedule(const RankedActions& ranks, Pairing& pairing);
std::optional<ScheduleFault> check_schedule(const RankedActions& ranks);

// End of the launch that starts at `begin`: a compute action alone, or a whole batch.
size_t launch_end(const ActionList& actions, size_t begin);

}  // namespace s2t
