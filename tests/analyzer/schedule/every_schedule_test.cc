// Properties of every valid plan: p 1..8, m 1..16, V 1..4, with all launches, variants, drains and
// group sizes. One pass over the plans; each property keeps the first plan that breaks it.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "analyzer/schedule/rendezvous.h"
#include "tests/analyzer/schedule/plans.h"

namespace s2t {
namespace {

using testing::plan;
using testing::with;

std::string describe(const PipelinePlan& p) {
  return p.schedule + " p" + std::to_string(p.ranks) + " m" + std::to_string(p.microbatches) +
         " V" + std::to_string(p.chunks) + " N" + std::to_string(p.group) + " " +
         std::string(name(p.batching)) + " " + std::string(name(p.variant)) + " " +
         std::string(name(p.drain)) + (p.forward_only ? " forward only" : "");
}

// What has happened so far, per kind, stage and microbatch.
class Done {
 public:
  explicit Done(const PipelinePlan& p)
      : plan_(p), times_(static_cast<size_t>(6 * p.stages() * p.microbatches)) {}

  int& times(ActionKind kind, int stage, int microbatch) {
    const int row = static_cast<int>(kind) * plan_.stages() + stage;
    return times_[static_cast<size_t>(row * plan_.microbatches + microbatch)];
  }
  bool has(ActionKind kind, const Action& a) { return times(kind, a.stage, a.microbatch) > 0; }

 private:
  const PipelinePlan& plan_;
  std::vector<int> times_;
};

bool ready(const Action& a, const PipelinePlan& p, Done& done) {
  const bool first = a.stage == 0 || p.ranks == 1;
  const bool last = a.stage == p.stages() - 1 || p.ranks == 1;
  switch (a.kind) {
    case ActionKind::forward:
      return first || done.has(ActionKind::recv_activation, a);
    case ActionKind::backward:
      return done.has(ActionKind::forward, a) && (last || done.has(ActionKind::recv_gradient, a));
    case ActionKind::send_activation:
      return done.has(ActionKind::forward, a);
    case ActionKind::send_gradient:
      return done.has(ActionKind::backward, a);
    default:
      return true;
  }
}

std::string unready_action(const PipelinePlan& p, const RankedActions& ranks) {
  for (const ActionList& list : ranks) {
    Done done(p);
    for (const Action& a : list) {
      if (!ready(a, p, done)) return to_string(a) + " of stage " + std::to_string(a.stage);
      ++done.times(a.kind, a.stage, a.microbatch);
    }
  }
  return "";
}

// How often an action of this kind must happen on this stage for each microbatch.
int wanted(const PipelinePlan& p, ActionKind kind, int stage) {
  const bool downstream = kind == ActionKind::send_activation || kind == ActionKind::recv_gradient;
  const bool backward = kind == ActionKind::backward || kind == ActionKind::send_gradient ||
                        kind == ActionKind::recv_gradient;
  if (backward && p.forward_only) return 0;
  if (is_compute(kind)) return 1;
  return p.ranks > 1 && stage != (downstream ? p.stages() - 1 : 0);
}

std::string miscounted_action(const PipelinePlan& p, const RankedActions& ranks) {
  Done done(p);
  for (const ActionList& list : ranks)
    for (const Action& a : list) ++done.times(a.kind, a.stage, a.microbatch);
  for (int k = 0; k < 6; ++k)
    for (int s = 0; s < p.stages(); ++s)
      for (int i = 0; i < p.microbatches; ++i) {
        const auto kind = static_cast<ActionKind>(k);
        if (done.times(kind, s, i) != wanted(p, kind, s))
          return to_string(Action{kind, s, s / p.ranks, i, -1, -1});
      }
  return "";
}

std::string misplaced_action(const PipelinePlan& p, const RankedActions& ranks) {
  for (int r = 0; r < p.ranks; ++r) {
    int last = -1;
    for (const Action& a : ranks[static_cast<size_t>(r)]) {
      const bool compute = is_compute(a.kind);
      const bool new_batch = !compute && a.batch != last;
      const bool right = a.stage % p.ranks == r && a.chunk == a.stage / p.ranks &&
                         compute == (a.batch == -1) && compute == (a.peer == -1) &&
                         (!new_batch || a.batch == last + 1);
      if (!right) return to_string(a) + " of rank " + std::to_string(r);
      if (new_batch) last = a.batch;
    }
  }
  return "";
}

std::string deadlock(const PipelinePlan&, const RankedActions& ranks) {
  const auto fault = check_schedule(ranks);
  return fault ? fault->text : "";
}

// The variants that differ for a schedule.
std::vector<PipelineVariant> variants_of(const ScheduleDef& s) {
  if (s.chunked) return {PipelineVariant::megatron_08, PipelineVariant::megatron};
  if (s.name == "1f1b") return {PipelineVariant::megatron, PipelineVariant::torch};
  return {PipelineVariant::megatron};
}

std::vector<PipelinePlan> options_of(const PipelinePlan& base, const ScheduleDef& s) {
  std::vector<PipelinePlan> plans;
  for (const Batching b : s.batchings)
    for (const auto variant : variants_of(s))
      for (const Drain drain : {Drain::forward, Drain::reversed})
        for (const bool forward_only : {false, true})
          for (const int group : {0, base.ranks + 1}) {
            if (forward_only && group != 0) continue;  // the order of forwards is the same
            PipelinePlan p = with(with(with(base, b), variant), drain);
            p.forward_only = forward_only;
            p.group = group;
            if (refusals(p).empty()) plans.push_back(p);
          }
  return plans;
}

struct Findings {
  std::string deadlock, unready, miscounted, misplaced;
  std::map<std::string, int> visited;
};

void examine(const PipelinePlan& p, Findings& found) {
  const RankedActions ranks = build_schedule(p);
  const auto note = [&](std::string& first, const std::string& text) {
    if (first.empty() && !text.empty()) first = describe(p) + ": " + text;
  };
  note(found.deadlock, deadlock(p, ranks));
  note(found.unready, unready_action(p, ranks));
  note(found.miscounted, miscounted_action(p, ranks));
  note(found.misplaced, misplaced_action(p, ranks));
  ++found.visited[p.schedule];
}

const Findings& findings() {
  static const Findings all = [] {
    Findings found;
    for (const ScheduleDef& s : schedules())
      for (int p = 1; p <= 8; ++p)
        for (int m = 1; m <= 16; ++m)
          for (int v = 1; v <= (s.chunked ? 4 : 1); ++v)
            for (const PipelinePlan& x : options_of(plan(std::string(s.name), p, m, v), s))
              examine(x, found);
    return found;
  }();
  return all;
}

TEST(EverySchedule, RunsWithoutDeadlock) {
  EXPECT_EQ(findings().deadlock, "");
}

TEST(EverySchedule, ComputesWhatHasArrivedAndSendsWhatIsComputed) {
  EXPECT_EQ(findings().unready, "");
}

TEST(EverySchedule, MovesEveryMicrobatchOverEveryBoundaryOnceEachWay) {
  EXPECT_EQ(findings().miscounted, "");
}

TEST(EverySchedule, KeepsStagesOnTheirRankAndNumbersBatchesDensely) {
  EXPECT_EQ(findings().misplaced, "");
}

TEST(EverySchedule, IsVisitedManyTimes) {
  for (const ScheduleDef& s : schedules())
    EXPECT_GE(findings().visited.at(std::string(s.name)), 8 * 16) << s.name;
}

}  // namespace
}  // namespace s2t
