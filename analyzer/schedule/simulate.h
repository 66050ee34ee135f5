// Time and global order of a schedule whose lists have passed `check_schedule`.
//
// Model: a rank computes one thing at a time; a message moves when both ends have issued it and the
// messages before it between these two ranks, in this direction, have moved, and takes
// `Costs::p2p`. With single or batched launches a rank goes on when all operations of the launch
// are done; with overlapped launches it goes on at once, and a computation waits only for its own
// input. Not modelled: contention, launch overhead, unequal stages.
#pragma once

#include <string>
#include <vector>

#include "analyzer/program/timeline.h"
#include "analyzer/schedule/pipeline.h"
#include "analyzer/schedule/rendezvous.h"

namespace s2t {

// Of one microbatch through all chunks of one rank (a chunk takes 1/V of it); p2p of one message.
struct Costs {
  double forward = 1;
  double backward = 2;
  double p2p = 0;
  std::string unit = "F";  // "ms" when the costs are times

  bool operator==(const Costs&) const = default;
};

inline constexpr double kMostCost = 1e9;  // each cost lies between 0 and this

// Throws Fault if the lists do not pass `check_schedule` or a cost is out of range.
Timeline simulate(const PipelinePlan& plan, const RankedActions& ranks, const Costs& costs = {});
Timeline simulate(const PipelinePlan& plan, const Costs& costs = {});

// Both of the above and below, of which each alone proves the lists once more.
struct Played {
  std::vector<ActionRef> order;
  Timeline timeline;
};
Played play(const PipelinePlan& plan, const RankedActions& ranks, const Costs& costs = {});

// All actions of all ranks in one order that keeps every rank's own order and puts a receive after
// its send; by start time under unit costs, then rank, so it does not depend on real costs. Throws
// Fault if there is no such order.
std::vector<ActionRef> global_order(const PipelinePlan& plan, const RankedActions& ranks);

}  // namespace s2t
