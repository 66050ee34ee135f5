// The one result of the analysis: what every rank of the job issues in one training step, in order,
// and why. Reports, diagrams and comparisons read this and nothing else.
//
// Cost does not grow with the world or the microbatches: ranks that behave alike share an event,
// and what a stage does is kept once per phase (`Segment`) beside the order in which a pipeline
// rank runs it (`RankPlan`). `list_events` (program/listing.h) spells the step out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/dtype.h"
#include "analyzer/comm/collective.h"
#include "analyzer/layout/layout.h"
#include "analyzer/mesh/mesh.h"
#include "analyzer/program/picture.h"
#include "analyzer/program/timeline.h"

namespace s2t {

enum class Phase : uint8_t { forward, backward, recompute, grad_sync, step };
std::string_view to_string(Phase phase);

// Where a collective comes from; one word of it is the `rule` of the contract's cause.
enum class CauseKind : uint8_t {
  forward_conversion,   // producer's layout -> consumer's port
  backward_conversion,  // gradient's layout -> the producer's cotangent port
  regather,             // `stored` residual: the forward conversion again, for the backward
  recompute,            // activation recomputation repeats the forward conversion
  ring,                 // operands of an op pass by in a ring, and their gradients
  stage_forward,        // activation to the next pipeline stage
  stage_backward,       // its gradient back
  data_sync,            // gradient of a parameter over the axes that share it
  model_sync,           // parameter gradient that is partial on a model axis (norms under SP)
  tied_sync,            // a parameter that lives on several stages
  parameter_gather,     // sharded parameter storage (FSDP, ZeRO): S -> R before use
  parameter_update,     // sharded optimizer: updated parts -> everybody
  framework,            // no layout asks for it: the framework's own bookkeeping
};
std::string_view to_string(CauseKind kind);

// Everything `explain` says, recorded when the decision was made.
struct Cause {
  CauseKind kind = CauseKind::forward_conversion;
  std::string why;  // one sentence
  std::string
      producer;  // "fc2 (linear): split(k)": op, and its mode on the event's axes; may be empty
  std::string consumer;
  std::string rule;     // index line of the op that decides, "x[* k] w[n k] -> y[* n]"
  std::string vote;     // which vote chose the mode, and which lost
  std::string from;     // layout before, "tp:P dp:S(0)"
  std::string to;       // layout after
  std::string planner;  // "P -> R is all_reduce"
};

// Which ranks: those whose coordinate along every listed axis is one of `coordinates`.
struct RankSet {
  struct Along {
    std::string axis;
    AtomSet atoms = 0;
    std::vector<int64_t> coordinates;
    bool operator==(const Along&) const = default;
  };
  std::vector<Along> along;  // empty: all ranks
  bool operator==(const RankSet&) const = default;
};
bool contains(const RankSet& set, const Mesh& mesh, Rank rank);

// Rows per peer of a ragged or equal all-to-all, in group order.
struct Splits {
  Count row_elements = 0;  // elements of one row
  std::vector<Count> send, recv;
  bool operator==(const Splits&) const = default;
};

struct Event {
  int64_t id = -1;  // dense in a listing; -1 in a segment
  Phase phase = Phase::forward;
  Collective op = Collective::all_reduce;
  Combiner combiner = Combiner::sum;  // of a reducing collective
  size_t family = 0;                  // index into Program::families
  std::string tensor;                 // value that moves
  std::string node;                   // op it belongs to
  std::string module;                 // owner in the model, may be empty
  std::optional<int64_t> stage, chunk, microbatch;
  RankSet ranks;
  // P2P and all_to_all to one neighbour: the peer's coordinate minus ours; in a ring they close.
  std::optional<int64_t> peer_offset;
  std::optional<Rank> peer;  // P2P in a listing of at most 64 ranks: global rank
  int64_t call = -1;         // events of one collective with different numbers share it
  int64_t batch = -1;        // P2P operations launched together share it
  DType dtype = DType::f32;
  Shape shape;  // local input shape
  Volume volume;
  std::optional<Splits> splits;      // all_to_all without peer_offset
  std::vector<std::string> members;  // tensors in one bucket or coalesced call
  int64_t repeat = 1;
  size_t cause = 0;  // index into Program::causes
  // Where Program::picture has it: the value that moves, and the op that wants it so.
  int32_t value = -1, user = -1;
  bool ring = false;  // P2P of a ring inside an op, not between stages; `batch` is its launch
};

struct Pruned {
  std::string id;  // "p0"
  Event event;     // as it would have been
  std::string because;
};

// What a stage's chunk does once per microbatch in one phase, without its P2P. Events that only the
// last (or first) microbatch issues are marked: a bucket is reduced inside the last backward.
struct Segment {
  enum class When : uint8_t { every, first, last };
  struct Item {
    Event event;
    When when = When::every;
  };
  std::vector<Item> items;
};

// One stage of the model: its segments and the messages of its borders. Stage s lives on pipeline
// rank s % p; without a pipeline there is one stage.
struct Stage {
  Segment forward, backward;
  // One event per tensor of the border, as this stage issues it.
  std::vector<Event> recv_activation, send_activation, recv_gradient, send_gradient;
};

// One entry of a pipeline rank's order: `kind` of a microbatch of a stage.
struct StepAction {
  SpanKind kind = SpanKind::forward;
  int32_t stage = 0;  // global stage number
  int32_t microbatch = 0;
  int32_t batch = -1;  // P2P launched together, numbered per pipeline rank; -1: compute
  int32_t pipeline_rank = 0;
  int32_t peer = -1;  // pipeline rank at the other end
};

// How the rows of a mixture-of-experts layer spread over the expert-parallel ranks.
struct Load {
  std::string routing, axis;
  std::vector<Count>
      rows;             // that each coordinate along the axis receives, one layer and microbatch
  int64_t hottest = 0;  // the coordinate with the most
  double ratio = 1;     // most over least; infinity if a rank has none
  Count dropped = 0;    // rows over capacity, all sources
};

struct Program {
  std::string model;
  Count parameters = 0;  // elements, unsharded, tied ones once
  Mesh mesh;
  std::vector<Family> families;  // in creation order
  std::vector<Cause> causes;
  std::vector<Stage> stages;
  std::vector<StepAction> order;  // global: restricted to a pipeline rank, its issue order
  std::vector<Event> after;       // gradient synchronisation after the last backward, then `step`
  std::vector<Pruned> pruned;
  std::vector<Remark> remarks;
  std::vector<Load> loads;
  int64_t microbatches = 1;
  std::string pipeline_axis;  // "" without a pipeline
  int64_t pipeline_ranks = 1, chunks = 1;
  GraphPicture picture;
  bool batched_p2p = true;           // tensors of one border are launched together, not one by one
  std::optional<Timeline> timeline;  // unit costs; only with a pipeline
};

// Visits each event that a program keeps, as often as it is kept: of all stages, forward and
// backward, then those behind the last backward. Messages between stages are not among them.
template <class Visit>
void for_each_kept_event(const Program& program, const Visit& visit) {
  for (const Stage& stage : program.stages)
    for (const Segment* segment : {&stage.forward, &stage.backward})
      for (const Segment::Item& item : segment->items) visit(item.event);
  for (const Event& e : program.after) visit(e);
}

// Those, then messages between stages, then what was pruned. Of a program that is not const the
// events may be changed.
template <class AnyProgram, class Visit>
void for_each_stored_event(AnyProgram& program, const Visit& visit) {
  for (auto& stage : program.stages)
    for (auto* segment : {&stage.forward, &stage.backward})
      for (auto& item : segment->items) visit(item.event);
  for (auto& e : program.after) visit(e);
  for (auto& stage : program.stages)
    for (auto* border : {&stage.send_activation, &stage.recv_activation, &stage.send_gradient,
                         &stage.recv_gradient})
      for (auto& e : *border) visit(e);
  for (auto& pruned : program.pruned) visit(pruned.event);
}

}  // namespace s2t
