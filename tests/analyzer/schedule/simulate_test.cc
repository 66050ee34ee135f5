// Time: makespans, bubbles, memory peaks and the global order.
#include "analyzer/schedule/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "analyzer/base/diagnostics.h"
#include "tests/analyzer/schedule/plans.h"

namespace s2t {
namespace {

using ::testing::ElementsAre;
using testing::inference;
using testing::peaks;
using testing::plan;
using testing::with;

TEST(Simulate, GPipeAndOneFOneBHaveTheSameBubbleButNotTheSamePeak) {
  for (const char* schedule : {"gpipe", "1f1b", "deepspeed"}) {
    const Timeline t = simulate(plan(schedule, 4, 8));
    EXPECT_DOUBLE_EQ(t.makespan, 33) << schedule;
    EXPECT_DOUBLE_EQ(t.ideal, 24);
    EXPECT_DOUBLE_EQ(t.bubble(), 3.0 / 8) << schedule;
    EXPECT_DOUBLE_EQ(t.bubble_share(), 9.0 / 33);
  }
  EXPECT_THAT(peaks(plan("gpipe", 4, 8)), ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(peaks(plan("1f1b", 4, 8)), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(peaks(plan("deepspeed", 4, 8)), ElementsAre(4, 3, 2, 1));
}

TEST(Simulate, GPipeDrainedInReverseTakesAsLong) {
  EXPECT_DOUBLE_EQ(simulate(with(plan("gpipe", 4, 8), Drain::reversed)).makespan, 33);
}

TEST(Simulate, InterleavingDividesTheBubbleByTheChunks) {
  const PipelinePlan p = with(plan("interleaved", 4, 8, 2), Batching::overlapped);
  const Timeline t = simulate(p);
  EXPECT_DOUBLE_EQ(t.makespan, 28.5);
  EXPECT_DOUBLE_EQ(t.bubble(), 3.0 / 16);
  EXPECT_THAT(peaks(p), ElementsAre(11, 9, 7, 5));
}

TEST(Simulate, PublishedConfigurationsHaveTheirBubble) {
  struct Row {
    int p, m, v;
    double percent;
  };
  // Narayanan et al. 2021, table 1: 39.1, 76.1, 145.6 and 1008 billion parameters.
  for (const Row& r :
       {Row{2, 12, 1, 8.33}, Row{4, 28, 3, 3.57}, Row{8, 48, 2, 7.29}, Row{64, 512, 1, 12.30}}) {
    PipelinePlan p = plan(r.v > 1 ? "interleaved" : "1f1b", r.p, r.m, r.v);
    if (r.v > 1) p.batching = Batching::overlapped;
    EXPECT_NEAR(100 * simulate(p).bubble(), r.percent, 0.006) << r.p;
  }
}

TEST(Simulate, BubbleIsStagesMinusOneOverMicrobatchesForAllSizes) {
  for (int p = 1; p <= 8; ++p)
    for (int m = p; m <= 16; ++m)
      for (const char* schedule : {"gpipe", "1f1b", "deepspeed"})
        EXPECT_DOUBLE_EQ(simulate(plan(schedule, p, m)).bubble(), (p - 1.0) / m)
            << schedule << " p" << p << " m" << m;
}

TEST(Simulate, PeakOfOneFOneBIsTheDistanceToTheEnd) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 16; ++m) {
      const auto got = peaks(plan("1f1b", p, m));
      for (int s = 0; s < p; ++s)
        EXPECT_EQ(got[static_cast<size_t>(s)], std::min(p - s, m)) << "p" << p << " m" << m;
    }
  }
}

TEST(Simulate, RealCostsAndMessagesTakeTime) {
  const Timeline t = simulate(plan("gpipe", 2, 1), Costs{3, 5, 0.5, "ms"});
  EXPECT_DOUBLE_EQ(t.makespan, 3 + 0.5 + 3 + 5 + 0.5 + 5);
  EXPECT_DOUBLE_EQ(t.ideal, 8);
  EXPECT_EQ(t.unit, "ms");
  EXPECT_DOUBLE_EQ(t.rows[1].busy, 8);
}

TEST(Simulate, InferenceHasNoBackwardAndKeepsOneActivation) {
  const Timeline t = simulate(inference(plan("1f1b", 4, 8)));
  EXPECT_DOUBLE_EQ(t.makespan, 11);
  EXPECT_DOUBLE_EQ(t.ideal, 8);
  EXPECT_EQ(t.rows[0].peak_activations, 1);
}

TEST(Simulate, OneStageHasNoBubble) {
  const Timeline t = simulate(plan("1f1b", 1, 5));
  EXPECT_DOUBLE_EQ(t.makespan, 15);
  EXPECT_DOUBLE_EQ(t.bubble(), 0);
  EXPECT_EQ(t.rows[0].messages, 0);
}

TEST(Simulate, PhasesOfTheFirstStageAreThreeForwardsFivePairsThreeBackwards) {
  const Timeline t = simulate(plan("1f1b", 4, 8));
  std::map<std::pair<SpanPhase, SpanKind>, int> n;
  for (const TimelineSpan& s : t.rows[0].spans) ++n[{s.phase, s.kind}];
  EXPECT_EQ((n[{SpanPhase::warm_up, SpanKind::forward}]), 3);
  EXPECT_EQ((n[{SpanPhase::steady, SpanKind::forward}]), 5);
  EXPECT_EQ((n[{SpanPhase::steady, SpanKind::backward}]), 5);
  EXPECT_EQ((n[{SpanPhase::drain, SpanKind::backward}]), 3);
  for (const TimelineSpan& s : t.rows[3].spans)
    EXPECT_TRUE(!is_compute(s) || s.phase == SpanPhase::steady);
}

TEST(Simulate, GPipeHasNoSteadyPhase) {
  for (const TimelineRow& row : simulate(plan("gpipe", 4, 8)).rows)
    for (const TimelineSpan& s : row.spans) EXPECT_NE(s.phase, SpanPhase::steady);
}

TEST(Simulate, EveryFlowHasTwoEndsAndComputationsNeverOverlap) {
  for (const Batching b : {Batching::single, Batching::batched, Batching::overlapped}) {
    const Timeline t = simulate(with(plan("interleaved", 4, 8, 3), b), Costs{1, 2, 0.25, "F"});
    std::map<int, std::pair<int, int>> ends;
    for (const TimelineRow& row : t.rows) {
      double busy_until = 0;
      for (const TimelineSpan& s : row.spans) {
        if (!is_compute(s)) {
          ++(is_send(s) ? ends[s.flow].first : ends[s.flow].second);
          EXPECT_NEAR(s.end - s.start, 0.25, 1e-9);
          continue;
        }
        EXPECT_GE(s.start, busy_until);
        busy_until = s.end;
      }
      EXPECT_NEAR(row.busy, 24, 1e-9);
    }
    EXPECT_EQ(ends.size(), 2u * 8 * 11);
    for (const auto& [flow, n] : ends) EXPECT_EQ(n, std::pair(1, 1)) << flow;
  }
}

TEST(Simulate, OverlappedComputationsWaitForTheirInput) {
  const PipelinePlan p = with(plan("interleaved", 3, 6, 2), Batching::overlapped);
  const Timeline t = simulate(p, Costs{1, 2, 0.5, "F"});
  std::map<std::tuple<SpanKind, int, int>, double> end;
  for (const TimelineRow& row : t.rows)
    for (const TimelineSpan& s : row.spans) end[{s.kind, s.stage, s.microbatch}] = s.end;
  const auto waits = [&](const TimelineSpan& s, int producer) {
    return producer < 0 || producer > 5 || s.start >= end[{s.kind, producer, s.microbatch}] + 0.5;
  };
  for (const TimelineRow& row : t.rows)
    for (const TimelineSpan& s : row.spans)
      EXPECT_TRUE(!is_compute(s) ||
                  waits(s, s.kind == SpanKind::forward ? s.stage - 1 : s.stage + 1));
}

TEST(Simulate, BrokenListsAreOurFault) {
  RankedActions ranks = build_schedule(plan("1f1b", 2, 2));
  ranks[1].pop_back();
  EXPECT_THROW(simulate(plan("1f1b", 2, 2), ranks), Fault);
}

TEST(Simulate, CostsOutOfRangeAreOurFault) {
  for (const double bad : {-1.0, 2 * kMostCost, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(simulate(plan("1f1b", 2, 2), Costs{1, bad, 0, "ms"}), Fault);
  EXPECT_DOUBLE_EQ(simulate(plan("1f1b", 2, 2), Costs{0, 0, 0, "ms"}).bubble_share(), 0);
}

void expect_topological(const PipelinePlan& p) {
  const RankedActions ranks = build_schedule(p);
  Pairing pairing;
  ASSERT_FALSE(pair_up(ranks, pairing));
  std::vector<int> next(ranks.size());
  for (const ActionRef& at : global_order(p, ranks)) {
    const auto r = static_cast<size_t>(at.rank);
    ASSERT_EQ(at.index, next[r]++);
    if (!is_recv(ranks[r][static_cast<size_t>(at.index)].kind)) continue;
    const ActionRef send = pairing[r][static_cast<size_t>(at.index)];
    ASSERT_GT(next[static_cast<size_t>(send.rank)], send.index);
  }
  for (size_t r = 0; r < ranks.size(); ++r)
    EXPECT_EQ(static_cast<size_t>(next[r]), ranks[r].size());
}

TEST(GlobalOrder, KeepsEveryRanksOrderAndPutsAReceiveAfterItsSend) {
  for (const ScheduleDef& s : schedules())
    for (int p = 1; p <= 5; ++p)
      for (int m = p; m <= 3 * p; m += p)
        for (const Batching b : s.batchings)
          expect_topological(with(plan(std::string(s.name), p, m, s.chunked ? 2 : 1), b));
}

TEST(GlobalOrder, ReadsLikeTime) {
  const PipelinePlan p = plan("1f1b", 2, 2);
  const RankedActions ranks = build_schedule(p);
  std::string text;
  for (const ActionRef& at : global_order(p, ranks))
    text += std::to_string(at.rank) + ":" +
            to_string(ranks[static_cast<size_t>(at.rank)][static_cast<size_t>(at.index)]) + " ";
  EXPECT_EQ(text,
            "0:F0 0:sf0 0:F1 1:rf0 1:F0 1:B0 0:sf1 1:sb0 0:rb0 0:B0 1:rf1 1:F1 1:B1 1:sb1 0:rb1 "
            "0:B1 ");
}

TEST(GlobalOrder, ABatchThatReceivesBeforeItSendsHasNone) {
  const PipelinePlan p = plan("1f1b", 2, 1);
  const auto act = [](ActionKind k, int stage, int microbatch, int peer) {
    return Action{k, stage, 0, microbatch, 0, peer};
  };
  const RankedActions ranks{
      {act(ActionKind::recv_gradient, 0, 0, 1), act(ActionKind::send_activation, 0, 1, 1)},
      {act(ActionKind::recv_activation, 1, 1, 0), act(ActionKind::send_gradient, 1, 0, 0)}};
  EXPECT_FALSE(check_schedule(ranks));
  EXPECT_THROW(global_order(p, ranks), Fault);
}

TEST(Scale, SixteenRanksFourThousandMicrobatchesAreBuiltCheckedAndTimed) {
  EXPECT_DOUBLE_EQ(simulate(plan("1f1b", 16, 4096)).bubble(), 15.0 / 4096);
}

TEST(Play, IsTheOrderAndTheTimelineAtOnce) {
  PipelinePlan p;
  p.ranks = 4;
  p.microbatches = 6;
  const RankedActions ranks = build_schedule(p);
  const Costs costs{1.5, 2.5, 0.25, "ms"};
  const Played both = play(p, ranks, costs);
  EXPECT_EQ(both.order, global_order(p, ranks));
  EXPECT_EQ(both.timeline, simulate(p, ranks, costs));
}

}  // namespace
}  // namespace s2t
