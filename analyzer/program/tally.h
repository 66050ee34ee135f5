// Counts a program: calls, bytes and kernels of the ranks that behave alike, from what each stage
// does once and how often it does it, so that cost grows neither with the world nor, beyond one
// look at the order of actions, with the microbatches.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "analyzer/program/program.h"
#include "analyzer/program/selection.h"

namespace s2t {

// How often a stage takes one kind of action, and between whom.
struct Occurrence {
  int64_t times = 0;
  int32_t pipeline_rank = 0;
  int32_t peer = -1;
};
using Occurrences = std::map<std::pair<int32_t, SpanKind>, Occurrence>;
Occurrences count_actions(const Program& program);

inline bool is_message(SpanKind kind) {
  return kind != SpanKind::forward && kind != SpanKind::backward;
}

// A stage's messages of one kind; nothing for a computation.
const std::vector<Event>& border(const Stage& stage, SpanKind kind);

// How often an item runs while its segment runs `times` times.
int64_t times_run(const Segment::Item& item, int64_t times);

// How many events of a selection `list_events` has.
Count count_events(const Program& program, const Selection& selection = {});

// Classes of ranks that behave alike: by pipeline coordinate, and by coordinate on axes along which
// numbers differ.
struct RankClass {
  RankSet ranks;
  Rank example;
  Count count = 1;  // how many ranks these are
  std::array<Count, kCollectives> operations{};
  std::array<Count, 6> kernels{};  // as kernel_names()
};
std::vector<RankClass> rank_classes(const Program& program);

// The same with fewer classes: those with equal counts that differ along one axis become one.
std::vector<RankClass> merge_alike(std::vector<RankClass> classes, const Mesh& mesh);

// That of one rank.
RankClass class_of(const Program& program, Rank rank);

// What one rank issues in a step, totalled: the rank of the selection, else of the busiest rank
// (most input and output bytes), which a row names. What tells rows apart, and who is busiest:
//   operation  per phase, family, collective, dtype and pipeline rank; all rows together, a row
//              that the busiest rank lacks being that of the next
//   owner      per owner (program/owner.h), phase and pipeline rank, in model order; likewise
//   family     per family alone; each row for itself
// All calls are counted with their bytes; rows of several collectives add the wire bytes of sends
// only, not those of receives.
enum class By : uint8_t { operation, owner, family };

struct SummaryRow {
  Phase phase = Phase::forward;
  size_t family = 0;
  Collective op = Collective::all_reduce;
  std::optional<int64_t> stage;  // pipeline coordinate
  DType dtype = DType::f32;
  std::string owner;
  Rank rank{};  // whose numbers these are, or the first of those that do the same
  Count calls = 0;
  Count min_input_bytes = 0, max_input_bytes = 0;           // of one call
  Count input_bytes = 0, output_bytes = 0, wire_bytes = 0;  // summed over the calls of one rank
  Count wire_of_all = 0;                                    // and over all ranks of the selection
};
std::vector<SummaryRow> summarize(const Program& program, const Selection& selection = {},
                                  By by = By::operation);

// Rows that several stages have alike, each once, with these stages ascending.
struct StageRows {
  SummaryRow row;
  std::vector<int64_t> stages;
};
std::vector<StageRows> merge_stages(const std::vector<SummaryRow>& rows);

}  // namespace s2t
