#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "analyzer/comm/collective.h"
#include "analyzer/comm/redistribute.h"
#include "analyzer/comm/routing.h"

namespace s2t {
namespace {

using ::testing::ElementsAre;

const Mesh kMesh({{"dp", 2, AxisKind::data, {}}, {"tp", 4, AxisKind::model, {}}}, {});

Layout layout(Placement dp, Placement tp) {
  Layout l(kMesh);
  l[AtomIndex(0)] = dp;
  l[AtomIndex(1)] = tp;
  return l;
}

TEST(Collectives, DualOfDualIsSelf) {
  for (const CollectiveDef& def : collectives()) EXPECT_EQ(info(def.dual).dual, def.op);
}

TEST(Collectives, GroupOfOneMovesNothing) {
  for (const Collective op : {Collective::all_reduce, Collective::all_gather,
                              Collective::reduce_scatter, Collective::all_to_all})
    EXPECT_EQ(volume(op, 1000, 4, 1).wire_bytes, 0u);
}

TEST(Collectives, BytesFollowNcclTests) {
  EXPECT_EQ(volume(Collective::all_reduce, 65536, 4, 2), (Volume{65536, 262144, 262144, 262144}));
  EXPECT_EQ(volume(Collective::all_gather, 32768, 4, 2), (Volume{32768, 131072, 262144, 131072}));
  EXPECT_EQ(volume(Collective::reduce_scatter, 32768, 4, 2),
            (Volume{32768, 262144, 131072, 131072}));
  EXPECT_EQ(volume(Collective::all_to_all, 100, 4, 4), (Volume{100, 400, 400, 300}));
  EXPECT_EQ(volume(Collective::send, 8, 2, 2), (Volume{8, 16, 0, 16}));
  EXPECT_EQ(volume(Collective::recv, 8, 2, 2), (Volume{8, 0, 16, 16}));
}

TEST(Collectives, WireBytesRoundUp) {
  EXPECT_EQ(volume(Collective::all_reduce, 1, 1, 3).wire_bytes, 2u);  // 4/3
}

TEST(Collectives, BytesBeyondSixtyFourBitsAreReported) {
  EXPECT_THROW(volume(Collective::all_reduce, UINT64_MAX / 2, 4, 2), Overflow);
  EXPECT_THROW(volume(Collective::all_gather, UINT64_MAX / 8, 4, 1 << 20), Overflow);
}

std::vector<std::string> names(const std::vector<Step>& steps) {
  std::vector<std::string> list;
  for (const Step& s : steps) list.push_back(to_string(s));
  return list;
}

TEST(Redistribute, EachPairIsOneStep) {
  const Placement R = Placement::R(), P = Placement::P(), S0 = Placement::S(0),
                  S1 = Placement::S(1);
  const auto one = [&](Placement from, Placement to) {
    return names(plan_redistribution(layout(R, from), layout(R, to), kMesh));
  };
  EXPECT_THAT(one(S0, R), ElementsAre("S(0) -> R is all_gather"));
  EXPECT_THAT(one(P, R), ElementsAre("P -> R is all_reduce"));
  EXPECT_THAT(one(P, S1), ElementsAre("P -> S(1) is reduce_scatter"));
  EXPECT_THAT(one(S0, S1), ElementsAre("S(0) -> S(1) is all_to_all"));
  EXPECT_THAT(one(R, S0), ElementsAre("R -> S(0) is local"));
  EXPECT_THAT(one(R, P), ElementsAre("R -> P is local"));
  EXPECT_THAT(one(S0, P), ElementsAre("S(0) -> P is local"));
  EXPECT_THAT(one(S0, S0), ElementsAre());
}

TEST(Redistribute, ReductionsComeBeforeGathers) {
  EXPECT_THAT(names(plan_redistribution(layout(Placement::S(0), Placement::P()),
                                        layout(Placement::R(), Placement::R()), kMesh)),
              ElementsAre("P -> R is all_reduce", "S(0) -> R is all_gather"));
}

TEST(Redistribute, AxesFuseOnlyWhereAllowed) {
  const Layout from = layout(Placement::P(), Placement::P()),
               to = layout(Placement::R(), Placement::R());
  EXPECT_EQ(plan_redistribution(from, to, kMesh).size(), 2u);
  EXPECT_EQ(plan_redistribution(from, to, kMesh, 0b11).size(), 1u);
}

TEST(Redistribute, PartsOfOneAxisAreOneCall) {
  const Mesh mesh({{"tp", 8, AxisKind::model, {{"kv", 2, {}, {}}, {"rep", 4, {}, {}}}}}, {});
  Layout from(mesh), to(mesh);
  from[AtomIndex(0)] = from[AtomIndex(1)] = Placement::P();
  EXPECT_EQ(plan_redistribution(from, to, mesh).size(), 1u);
}

// Property: applying the steps to `from` gives `to`, each step starts where the last ended, and
// every step changes only its own atoms.
TEST(Redistribute, StepsLeadFromTheFirstLayoutToTheSecond) {
  std::mt19937 random(7);
  const std::vector<Placement> all{Placement::R(), Placement::P(), Placement::S(0), Placement::S(1),
                                   Placement::S(2)};
  const auto any = [&] { return all[random() % all.size()]; };
  for (int trial = 0; trial < 2000; ++trial) {
    const Layout from = layout(any(), any()), to = layout(any(), any());
    Layout now = from;
    for (const Step& s : plan_redistribution(from, to, kMesh, trial % 2 ? 0b11 : 0)) {
      EXPECT_EQ(s.before, now);
      for (size_t a = 0; a < now.size(); ++a)
        EXPECT_EQ(contains(s.atoms, AtomIndex(a)), s.before[AtomIndex(a)] != s.after[AtomIndex(a)]);
      now = s.after;
    }
    EXPECT_EQ(now, to);
  }
}

Routing experts(int64_t ranks, int64_t count, int64_t top_k = 1) {
  return {"r", 0b1, ranks, count, top_k, {}, 0, {}};
}

TEST(Routing, SkewSplitsSevenToOne) {
  Routing r = experts(2, 2);
  ASSERT_FALSE(route(r, {{}, {7, 1}, {}, false}, 64));
  EXPECT_THAT(r.dispatch_send(0), ElementsAre(56u, 8u));
  EXPECT_THAT(r.dispatch_recv(0), ElementsAre(56u, 56u));
  EXPECT_THAT(r.dispatch_recv(1), ElementsAre(8u, 8u));
  EXPECT_EQ(r.hottest(), 0);
  EXPECT_DOUBLE_EQ(r.load_ratio(), 7.0);
}

TEST(Routing, WhatABalancedLoadLeavesOverLiesEvenlyApart) {
  Routing few = experts(4, 8, 2), many = experts(2, 4, 3);
  ASSERT_FALSE(route(few, {{}, {}, {}, false}, 2));
  EXPECT_THAT(few.counts[0], ElementsAre(0u, 1u, 0u, 1u, 0u, 1u, 0u, 1u));
  EXPECT_THAT(few.dispatch_send(0), ElementsAre(1u, 1u, 1u, 1u));
  ASSERT_FALSE(route(many, {{}, {}, {}, false}, 5));
  EXPECT_THAT(many.counts[1], ElementsAre(3u, 4u, 4u, 4u));
}

TEST(Routing, CapacityDropsOrPads) {
  Routing drop = experts(2, 4, 2), pad = experts(2, 4, 2);
  ASSERT_FALSE(route(drop, {{}, {2, 1, 1, 0}, 1.0, false}, 16));
  ASSERT_FALSE(route(pad, {{}, {2, 1, 1, 0}, 1.0, true}, 16));
  EXPECT_THAT(drop.counts[0], ElementsAre(8u, 8u, 8u, 0u));
  EXPECT_EQ(drop.dropped, 2u * 8u);
  EXPECT_THAT(pad.counts[0], ElementsAre(8u, 8u, 8u, 8u));
}

// Switch, appendix A: 4,096 tokens, capacity factor 1.25, width 768, bf16: 7,864,320 B each way.
TEST(Routing, SwitchTransformerPadsToItsCapacity) {
  Routing r = experts(8, 8);
  ASSERT_FALSE(route(r, {{}, {}, 1.25, true}, 4096));
  EXPECT_EQ(r.rows_at_source(0) * 768 * 2, 7864320u);
}

TEST(Routing, WrongCountsSayWhatIsExpected) {
  Routing r = experts(2, 2);
  EXPECT_EQ(route(r, {{{56, 8}, {56, 9}}, {}, {}, false}, 64)->why,
            "the counts of source 1 sum to 65 rows; expected 64 (tokens x top_k)");
  EXPECT_EQ(route(r, {{{56, 8}, {56, 9}}, {}, {}, false}, 64)->where, "/counts/1");
  EXPECT_EQ(route(r, {{{64}}, {}, {}, false}, 64)->why, "source 0 counts 1 experts; expected 2");
}

TEST(Routing, NoTokenMeetsAnExpertTwice) {
  Routing r = experts(2, 4, 2);
  const auto counts = route(r, {{{17, 15, 0, 0}}, {}, {}, false}, 16);
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->where, "/counts/0/0");
  EXPECT_EQ(counts->why, "expert 0 gets 17 rows of 16 tokens: a token would meet it twice");
  EXPECT_EQ(route(r, {{}, {5, 1, 1, 1}, {}, false}, 16)->where, "/skew");
}

// Property: rows sent = rows received, and the matrix of one direction is the transpose of the
// other.
TEST(Routing, RowsAreConserved) {
  std::mt19937 random(11);
  int routed = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const int64_t n = 1 + static_cast<int64_t>(random() % 8);
    Routing r = experts(n, n * (1 + static_cast<int64_t>(random() % 4)),
                        1 + static_cast<int64_t>(random() % 3));
    std::vector<double> skew;
    for (int64_t e = 0; e < r.experts; ++e) skew.push_back(1 + static_cast<double>(random() % 9));
    const Count tokens = 1 + random() % 100;
    if (const auto error = route(r, {{}, skew, {}, false}, tokens)) {
      EXPECT_EQ(error->where, "/skew");
      EXPECT_GT(r.top_k, 1);  // one expert per token can have all tokens
      continue;
    }
    ++routed;
    Count sent = 0, received = 0;
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(r.rows_at_source(i), tokens * static_cast<Count>(r.top_k));
      sent += r.rows_at_source(i);
      received += r.rows_at_expert(i);
      for (int64_t j = 0; j < n; ++j)
        EXPECT_EQ(r.dispatch_send(i)[static_cast<size_t>(j)],
                  r.dispatch_recv(j)[static_cast<size_t>(i)]);
    }
    EXPECT_EQ(sent, received);
  }
  EXPECT_GT(routed, 100);
}

}  // namespace
}  // namespace s2t
