// Spells a program out: events with dense ids in an order that is, restricted to any rank, that
// rank's issue order.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "analyzer/program/program.h"

namespace s2t {

// Worlds up to this size list ranks by number and one event per rank for P2P.
inline constexpr int64_t kExplicitRanks = 64;

// Calls `visit` for every event of the step; events of up to 64 ranks carry global ranks as peers.
void for_each_event(const Program& program, const std::function<void(const Event&)>& visit);
std::vector<Event> list_events(const Program& program);

// Those of one rank, in its issue order (ids are those of the whole listing).
std::vector<Event> events_of(const Program& program, Rank rank);

// Ranks that issue an event, ascending. Cost grows with the world: for explicit listings only.
std::vector<Rank> ranks_of(const Program& program, const Event& event);

// Classes of ranks that behave alike: by pipeline coordinate, and by coordinate on axes along which
// numbers differ.
struct RankClass {
  RankSet ranks;
  Rank example;
  std::array<Count, kCollectives> operations{};
  std::array<Count, 6> kernels{};  // as kernel_names()
};
std::vector<RankClass> rank_classes(const Program& program);

// Per phase, family and collective: calls, bytes over the whole step of one rank class. Computed
// from segments: cost does not grow with microbatches.
struct SummaryRow {
  Phase phase;
  size_t family;
  Collective op;
  std::optional<int64_t> stage;
  DType dtype;
  Count calls = 0;
  Count min_input_bytes = 0, max_input_bytes = 0;           // of one call
  Count input_bytes = 0, output_bytes = 0, wire_bytes = 0;  // summed over the calls of one rank
};
std::vector<SummaryRow> summarize(const Program& program);

}  // namespace s2t
