#include "analyzer/program/listing.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "analyzer/program/tally.h"
#include "tests/analyzer/program/sample_programs.h"

namespace s2t {
namespace {

using testing::ElementsAre;

std::string brief(const Event& e) {
  std::string text = std::to_string(e.id) + " " + std::string(info(e.op).brief) + " " + e.tensor;
  if (e.microbatch) text += " m" + std::to_string(*e.microbatch);
  if (e.peer) text += " @" + std::to_string(e.peer->value);
  if (e.peer_offset && !e.peer) text += " @" + std::to_string(*e.peer_offset);
  if (e.batch >= 0) text += " b" + std::to_string(e.batch);
  if (e.repeat > 1) text += " x" + std::to_string(e.repeat);
  return text;
}

std::vector<std::string> briefs(const std::vector<Event>& events) {
  std::vector<std::string> list;
  for (const Event& e : events) list.push_back(brief(e));
  return list;
}

std::vector<int> numbers(const std::vector<Rank>& ranks) {
  std::vector<int> list;
  for (const Rank r : ranks) list.push_back(r.value);
  return list;
}

Count kernels(const RankClass& c, Collective op) {
  return c.kernels[kernel_index(op)];
}

TEST(Listing, WalksForwardBackwardAndWhatFollows) {
  EXPECT_THAT(briefs(list_events(tensor_parallel_program())),
              ElementsAre("0 AR y m0", "1 AR y.grad m0", "2 AR w1.grad", "3 AR w2.grad"));
}

TEST(Listing, EventsWithoutAPipelineHaveNoStage) {
  Program p = tensor_parallel_program();
  p.after[0].stage = p.stages[0].forward.items[0].event.stage = 0;
  for (const Event& e : list_events(p)) {
    EXPECT_EQ(e.stage, std::nullopt);
    EXPECT_EQ(e.chunk, std::nullopt);
  }
}

TEST(Listing, AMessageIsOneEventPerGlobalRankWithItsPeer) {
  const auto events = list_events(pipeline_program());
  EXPECT_EQ(brief(events[0]), "0 send h m0 @1 b0");
  EXPECT_EQ(brief(events[1]), "1 send h m0 @3 b1");
  EXPECT_EQ(brief(events[2]), "2 recv h m0 @0 b2");
  EXPECT_THAT(numbers(ranks_of(pipeline_program(), events[1])), ElementsAre(2));
  EXPECT_EQ(events[0].call, events[1].call);
}

TEST(Listing, OneRankSeesItsIssueOrder) {
  EXPECT_THAT(briefs(events_of(pipeline_program(), Rank(2))),
              ElementsAre("1 send h m0 @3 b1", "5 send h m1 @3 b5", "11 recv h.grad m0 @3 b11",
                          "16 recv h.grad m1 @3 b15", "17 AR w.grad"));
}

TEST(Listing, AboveSixtyFourRanksAMessageIsOneEventWithAnOffset) {
  const auto events = list_events(pipeline_program(128));
  EXPECT_EQ(brief(events[0]), "0 send h m0 @1 b0");
  EXPECT_EQ(brief(events[1]), "1 recv h m0 @-1 b1");
  ASSERT_EQ(events[0].ranks.along.size(), 1u);
  EXPECT_EQ(events[0].ranks.along[0].axis, "pp");
  EXPECT_THAT(events[0].ranks.along[0].coordinates, ElementsAre(0));
}

TEST(Listing, AGradientSyncInTheLastBackwardBelongsToTheStep) {
  int reduced = 0;
  for (const Event& e : list_events(pipeline_program(4, 3)))
    if (e.phase == Phase::grad_sync) {
      ++reduced;
      EXPECT_EQ(e.microbatch, std::nullopt);
      EXPECT_NE(e.stage, std::nullopt);
    }
  EXPECT_EQ(reduced, 2);  // once per stage
}

TEST(Listing, AStageIsAPipelineCoordinateAndAChunk) {
  Program p = pipeline_program();
  Event e;
  e.stage = 3;
  place(p, e);
  EXPECT_EQ(e.stage, 1);
  EXPECT_EQ(e.chunk, 1);
}

TEST(Listing, EventsOfOneCollectiveShareACall) {
  const auto events = list_events(expert_program());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].call, events[1].call);
  EXPECT_THAT(numbers(ranks_of(expert_program(), events[0])), ElementsAre(0, 2));
}

TEST(Listing, CallsOfDifferentMicrobatchesDiffer) {
  Program p = expert_program();
  p.order.push_back({SpanKind::forward, 0, 1});
  const auto events = list_events(p);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[2].call, events[3].call);
  EXPECT_NE(events[1].call, events[2].call);
}

TEST(Listing, MessagesLaunchedTogetherShareABatchUnlessLaunchedOneByOne) {
  Program p = pipeline_program();
  p.stages[0].send_activation.push_back(p.stages[0].send_activation[0]);
  p.stages[1].recv_activation.push_back(p.stages[1].recv_activation[0]);
  const auto together = events_of(p, Rank(0));
  EXPECT_EQ(together[0].batch, together[1].batch);
  EXPECT_EQ(kernels(class_of(p, Rank(0)), Collective::send), 4u);
  p.batched_p2p = false;
  const auto singly = events_of(p, Rank(0));
  EXPECT_NE(singly[0].batch, singly[1].batch);
  EXPECT_EQ(kernels(class_of(p, Rank(0)), Collective::send), 6u);
}

TEST(Listing, ASummaryKeepsTheOrderWithinAPhase) {
  std::vector<Event> events;
  for_each_summary_event(pipeline_program(128, 8), [&](const Event& e) { events.push_back(e); });
  EXPECT_THAT(briefs(events),
              ElementsAre("0 send h @1 x8", "1 recv h @-1 x8", "30 AR w.grad",
                          "16 send h.grad @-1 x8", "17 recv h.grad @1 x8", "33 AR w.grad"));
}

TEST(Listing, ASummaryCallsAnEventAsTheListingCallsItsFirst) {
  for (const Program& p : {tensor_parallel_program(), pipeline_program(4, 5),
                           pipeline_program(256, 5), pipeline_program(4, 1), expert_program()}) {
    const auto all = list_events(p);
    std::set<std::string> seen;
    for_each_summary_event(p, [&](const Event& e) {
      const auto name = [](const Event& x) {
        return fmt::format("{} {} {} {}", to_string(x.phase), info(x.op).name, x.tensor,
                           x.peer ? x.peer->value : -1);
      };
      const Event& first = all.at(static_cast<size_t>(e.id));
      EXPECT_EQ(name(first), name(e)) << p.model;
      EXPECT_EQ(first.ranks, e.ranks);
      EXPECT_EQ(first.volume, e.volume);
      for (int64_t id = 0; id < e.id; ++id) {
        const Event& before = all[static_cast<size_t>(id)];
        EXPECT_FALSE(name(before) == name(e) && before.ranks == e.ranks && before.cause == e.cause);
      }
    });
  }
}

TEST(Listing, CountsItsEventsBeforehand) {
  for (const Program& p : {tensor_parallel_program(), pipeline_program(4, 5),
                           pipeline_program(256, 5), expert_program()})
    EXPECT_EQ(count_events(p), list_events(p).size()) << p.model;
}

TEST(Tally, KernelsOfATensorParallelRank) {
  const auto classes = rank_classes(tensor_parallel_program());
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_EQ(kernels(classes[0], Collective::all_reduce), 4u);
  EXPECT_EQ(classes[0].operations[static_cast<size_t>(Collective::all_reduce)], 4u);
}

TEST(Tally, AgreesWithTheListingForEveryRank) {
  for (const Program& p : {tensor_parallel_program(), pipeline_program(4, 3), expert_program()})
    for (const RankClass& c : rank_classes(p)) {
      std::array<Count, kCollectives> counted{};
      for (const Event& e : events_of(p, c.example)) ++counted[static_cast<size_t>(e.op)];
      EXPECT_EQ(counted, c.operations) << p.model;
    }
}

TEST(Tally, ClassesAreThePipelineRanks) {
  const auto classes = rank_classes(pipeline_program(65536));
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(kernels(classes[0], Collective::send), 4u);
  EXPECT_EQ(classes[1].ranks.along[0].coordinates, std::vector<int64_t>{1});
}

TEST(Tally, RanksWithDifferentNumbersAreClassesOfTheirOwn) {
  const auto classes = rank_classes(expert_program());
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].example, Rank(0));
  EXPECT_EQ(classes[1].example, Rank(1));
}

TEST(Tally, TheSummaryShowsTheBusiestRankAndTheSpread) {
  const auto rows = summarize(expert_program());
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].calls, 1u);
  EXPECT_EQ(rows[0].output_bytes, 229376u);
  EXPECT_EQ(rows[0].wire_bytes, 16384u);
}

TEST(Tally, TheSummaryIsOneRanksEvenWhereAnotherHasTheLargerRow) {
  Program p = expert_program();
  auto& items = p.stages[0].forward.items;
  for (size_t c = 0; c < 2; ++c) {  // the cold rank moves more backward, but less altogether
    Event e = items[c].event;
    e.phase = Phase::backward;
    e.volume = {c == 0 ? 1000u : 2000u, 1000u, 1000u};
    items.push_back({e});
  }
  const auto rows = summarize(p);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].output_bytes, 229376u);
  EXPECT_EQ(rows[1].input_bytes, 1000u);
  EXPECT_EQ(rows[1].max_input_bytes, 1000u);
}

TEST(Tally, TheSummaryOfOneRankIsItsOwn) {
  const auto rows = summarize(expert_program(), {Rank(3), {}, ""});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].output_bytes, 32768u);
  EXPECT_EQ(rows[0].wire_bytes, 114688u);
}

TEST(Tally, TotalsBeyondSixtyFourBitsAreNotWrapped) {
  Program p = tensor_parallel_program();
  p.stages[0].forward.items[0].event.volume.input_bytes = UINT64_MAX / 2;
  p.order.insert(p.order.begin(), {{SpanKind::forward, 0, 0}, {SpanKind::forward, 0, 1}});
  EXPECT_THROW(summarize(p), Overflow);
}

TEST(Program, WordsOfCausesAreTheirNames) {
  EXPECT_EQ(to_string(CauseKind::parameter_update), "parameter_update");
  EXPECT_EQ(to_string(CauseKind::regather), "regather");
  EXPECT_EQ(to_string(Phase::grad_sync), "grad_sync");
}

}  // namespace
}  // namespace s2t
