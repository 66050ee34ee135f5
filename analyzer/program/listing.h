// Spells a program out: events with dense ids in an order that is, restricted to any rank, that
// rank's issue order.
//
// Events of a stage carry the rank's pipeline coordinate as `stage` and the stage's number on that
// rank as `chunk`; a gradient sync that runs once per step carries no microbatch. Not known here:
// how many calls or kernels that makes (program/tally.h).
#pragma once

#include <functional>
#include <vector>

#include "analyzer/program/program.h"

namespace s2t {

// Worlds up to this size list ranks by number and one event per rank for P2P.
inline constexpr int64_t kExplicitRanks = 64;

// How many events a kept all-to-all is listed as: with a `peer_offset` in a group of up to 64 ranks
// one for each of them, with splits in place of the offset; any other, one as it is.
int64_t spelled_out(const Program& program, const Event& kept);

using EventVisitor = std::function<void(const Event&)>;

// Calls `visit` for every event of the step; events of up to 64 ranks carry global ranks as peers.
void for_each_event(const Program& program, const EventVisitor& visit);
std::vector<Event> list_events(const Program& program);

// Those of one rank, in its issue order (ids are those of the whole listing).
std::vector<Event> events_of(const Program& program, Rank rank);

// What each stage does once per phase, `repeat` telling how often: the order holds per phase, and
// an event's id is that of the first of those it stands for in the whole listing. Cost grows with
// the microbatches by one look at each action.
void for_each_summary_event(const Program& program, const EventVisitor& visit);

// In a program an event's `stage` is that of the model; here it becomes the rank's pipeline
// coordinate and `chunk`, both absent without a pipeline. What the visitors get is placed already.
void place(const Program& program, Event& event);

// The rank at the other end of a message that `rank` sends or receives.
Rank peer_of(const Program& program, const Event& event, Rank rank);

// Ranks that issue an event, ascending. Cost grows with the world: for explicit listings only.
std::vector<Rank> ranks_of(const Program& program, const Event& event);

}  // namespace s2t
