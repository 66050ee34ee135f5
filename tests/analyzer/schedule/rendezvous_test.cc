// The deadlock proof on lists made by hand: broken ones fail it by name.
#include "analyzer/schedule/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyzer/schedule/plans.h"

namespace s2t {
namespace {

using testing::plan;

constexpr auto kSendF = ActionKind::send_activation;
constexpr auto kRecvF = ActionKind::recv_activation;
constexpr auto kSendB = ActionKind::send_gradient;
constexpr auto kRecvB = ActionKind::recv_gradient;

Action p2p(ActionKind kind, int stage, int microbatch, int peer, int batch) {
  return {kind, stage, 0, microbatch, batch, peer};
}

std::string text_of(const RankedActions& ranks) {
  const auto fault = check_schedule(ranks);
  return fault ? fault->text : "passes";
}

TEST(Rendezvous, TwoRanksThatBothSendFirstDeadlock) {
  const RankedActions ranks{{p2p(kSendF, 0, 1, 1, 0), p2p(kRecvB, 0, 0, 1, 1)},
                            {p2p(kSendB, 1, 0, 0, 0), p2p(kRecvF, 1, 1, 0, 1)}};
  const auto fault = check_schedule(ranks);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, ScheduleFault::Kind::deadlock);
  EXPECT_EQ(fault->text,
            "deadlock: rank 0 waits in sf1 for rank 1; rank 1 waits in sb0 for rank 0");
  ASSERT_EQ(fault->waits.size(), 2u);
  EXPECT_EQ(fault->waits[0].at, (ActionRef{0, 0}));
  EXPECT_EQ(fault->waits[1].action, ranks[1][0]);
}

TEST(Rendezvous, TheSameOperationsInOneBatchMeet) {
  EXPECT_EQ(text_of({{p2p(kSendF, 0, 1, 1, 0), p2p(kRecvB, 0, 0, 1, 0)},
                     {p2p(kSendB, 1, 0, 0, 0), p2p(kRecvF, 1, 1, 0, 0)}}),
            "passes");
}

TEST(Rendezvous, ARingIsNamedWithoutTheRankThatOnlyWaitsForIt) {
  // Stages 1, 2, 3 of a ring 1 -> 2 -> 3 -> 1 all send before they receive; rank 0 waits for
  // rank 1.
  EXPECT_EQ(text_of({{p2p(kSendF, 0, 0, 1, 0)},
                     {p2p(kSendF, 1, 0, 2, 0), p2p(kRecvF, 4, 7, 3, 1), p2p(kRecvF, 1, 0, 0, 2)},
                     {p2p(kSendF, 2, 0, 3, 0), p2p(kRecvF, 2, 0, 1, 1)},
                     {p2p(kSendF, 3, 7, 1, 0), p2p(kRecvF, 3, 0, 2, 1)}}),
            "deadlock: rank 1 waits in sf0 for rank 2; rank 2 waits in sf0 for rank 3; "
            "rank 3 waits in sf7 for rank 1");
}

TEST(Rendezvous, ABatchIsNamedWhole) {
  EXPECT_EQ(text_of({{p2p(kSendF, 0, 1, 1, 0), p2p(kRecvF, 3, 4, 2, 0), p2p(kRecvB, 0, 0, 1, 1)},
                     {p2p(kSendB, 1, 0, 0, 0), p2p(kRecvF, 1, 1, 0, 1)},
                     {p2p(kSendF, 2, 4, 0, 0)}}),
            "deadlock: rank 0 waits in [sf1|rf4] for rank 1; rank 1 waits in sb0 for rank 0");
}

TEST(Rendezvous, MessagesOfOneChannelMustCorrespondInOrder) {
  RankedActions ranks = build_schedule(plan("1f1b", 2, 2));
  ranks[1].erase(ranks[1].begin());  // its first receive
  EXPECT_EQ(check_schedule(ranks)->kind, ScheduleFault::Kind::mispaired);
  EXPECT_EQ(text_of(ranks),
            "message 0 from rank 0 to rank 1 is sent as sf0 (stage 0) but received as rf1 (stage "
            "1)");
}

TEST(Rendezvous, ASendWithoutAReceiveIsNamed) {
  RankedActions ranks = build_schedule(plan("1f1b", 2, 1));
  std::erase_if(ranks[1], [](const Action& a) { return a.kind == kRecvF; });
  EXPECT_EQ(check_schedule(ranks)->kind, ScheduleFault::Kind::unpaired);
  EXPECT_EQ(text_of(ranks), "rank 0 issues sf0 to rank 1, which never issues the matching receive");
}

TEST(Rendezvous, AReceiveWithoutASendIsNamed) {
  EXPECT_EQ(text_of({{}, {p2p(kRecvF, 1, 3, 0, 0)}}),
            "rank 1 issues rf3 from rank 0, which never issues the matching send");
}

TEST(Rendezvous, APeerOutsideThePipelineIsMalformed) {
  for (const int peer : {-1, 0, 2})
    EXPECT_EQ(check_schedule({{p2p(kSendF, 0, 0, peer, 0)}, {}})->kind,
              ScheduleFault::Kind::malformed);
}

TEST(Rendezvous, BatchesTakenApartInTheirPrintedOrderDeadlock) {
  RankedActions ranks = build_schedule(plan("1f1b", 2, 4));
  for (ActionList& list : ranks)
    for (size_t i = 0; i < list.size(); ++i)
      if (!is_compute(list[i].kind)) list[i].batch = static_cast<int>(i);
  EXPECT_EQ(text_of(ranks),
            "deadlock: rank 0 waits in sf1 for rank 1; rank 1 waits in sb0 for rank 0");
}

}  // namespace
}  // namespace s2t
