// When each pipeline rank does what: plain data between whoever simulates and whoever draws.
//
// Times are in `unit` ("ms", or "F" for unit costs, where a forward of one microbatch through all
// chunks of a rank takes 1). Invariants: spans of a row are in issue order; compute spans of a row
// do not overlap; every flow id stands on exactly one send and one receive, and the receive does
// not end before the send starts. Not known here: schedules, graphs, global ranks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace s2t {

enum class SpanKind {
  forward,
  backward,
  send_activation,
  recv_activation,
  send_gradient,
  recv_gradient,
};

// Warm-up: forwards before the first pair; steady: one forward, one backward; drain: the rest.
enum class SpanPhase { warm_up, steady, drain };

struct TimelineSpan {
  SpanKind kind = SpanKind::forward;
  SpanPhase phase = SpanPhase::warm_up;
  int stage = 0;
  int chunk = 0;
  int microbatch = 0;
  double start = 0;
  double end = 0;  // of a send or receive: while the message moves, not while it waits
  int peer = -1;   // pipeline rank at the other end; -1: compute
  int batch = -1;  // per row, shared by operations launched together; -1: compute
  int flow = -1;   // shared by a send and its receive; -1: compute

  bool operator==(const TimelineSpan&) const = default;
};

inline bool is_compute(const TimelineSpan& s) {
  return s.kind == SpanKind::forward || s.kind == SpanKind::backward;
}
inline bool is_send(const TimelineSpan& s) {
  return s.kind == SpanKind::send_activation || s.kind == SpanKind::send_gradient;
}

struct TimelineRow {
  int rank = 0;       // pipeline rank
  std::string label;  // "rank 0", or whatever the caller prefers
  std::vector<TimelineSpan> spans;
  int messages = 0;          // sent and received
  int kernels = 0;           // launches of point-to-point operations
  int peak_activations = 0;  // most microbatch activations held at once, in chunks of a stage
  double busy = 0;           // computing time

  bool operator==(const TimelineRow&) const = default;
};

struct Timeline {
  std::string title;     // the model, or empty
  std::string schedule;  // "1f1b"
  std::string unit;      // "F" or "ms"
  int ranks = 1, chunks = 1, microbatches = 1;
  bool forward_only = false;
  double forward_cost = 1, backward_cost = 2, p2p_cost = 0;
  std::vector<TimelineRow> rows;  // by rank
  double makespan = 0;
  double ideal = 0;  // computing time of one rank: no bubble at all

  // Idle time relative to the ideal, (p-1)/m for GPipe and 1F1B; and as a share of the makespan.
  double bubble() const { return ideal > 0 ? (makespan - ideal) / ideal : 0; }
  double bubble_share() const { return makespan > 0 ? (makespan - ideal) / makespan : 0; }

  bool operator==(const Timeline&) const = default;
};

// "F3", "sb0", "F3.1" in chunk 1; sends and receives without numbers if `brief`.
inline std::string label(const TimelineSpan& s, bool brief = false) {
  static constexpr const char* kLetters[] = {"F", "B", "sf", "rf", "sb", "rb"};
  std::string text = kLetters[static_cast<int>(s.kind)];
  if (brief && !is_compute(s)) return text;
  text += std::to_string(s.microbatch);
  return s.chunk > 0 ? text + "." + std::to_string(s.chunk) : text;
}

inline std::string_view name(SpanPhase phase) {
  return phase == SpanPhase::warm_up ? "warm-up" : phase == SpanPhase::steady ? "steady" : "drain";
}

inline std::string_view name(SpanKind kind) {
  switch (kind) {
    case SpanKind::forward:
      return "forward";
    case SpanKind::backward:
      return "backward";
    case SpanKind::send_activation:
      return "send_activation";
    case SpanKind::recv_activation:
      return "recv_activation";
    case SpanKind::send_gradient:
      return "send_gradient";
    case SpanKind::recv_gradient:
      return "recv_gradient";
  }
  return "?";
}

}  // namespace s2t
