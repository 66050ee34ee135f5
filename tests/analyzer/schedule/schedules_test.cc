// Each schedule against the tables of its framework, as counted from the lists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "analyzer/base/diagnostics.h"
#include "tests/analyzer/schedule/plans.h"

namespace s2t {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::inference;
using testing::kernels;
using testing::messages;
using testing::peaks;
using testing::plan;
using testing::warm_ups;
using testing::with;

constexpr auto kM08 = PipelineVariant::megatron_08;
constexpr auto kMN = PipelineVariant::megatron;
constexpr auto kTorch = PipelineVariant::torch;

std::vector<std::string> texts(const PipelinePlan& p, Labels labels = Labels::numbered) {
  std::vector<std::string> out;
  for (const ActionList& list : build_schedule(p)) out.push_back(to_string(list, labels));
  return out;
}

TEST(OneFOneB, FourStagesEightMicrobatchesGiveTheKnownSequences) {
  const std::vector<std::string> expected{
      "F0 sf F1 sf F2 sf F3 [sf|rb] B0 F4 [sf|rb] B1 F5 [sf|rb] B2 F6 [sf|rb] B3 F7 [sf|rb] B4 "
      "rb B5 rb B6 rb B7",
      "rf F0 sf rf F1 sf rf F2 [sf|rb] B0 [sb|rf] F3 [sf|rb] B1 [sb|rf] F4 [sf|rb] B2 [sb|rf] F5 "
      "[sf|rb] B3 [sb|rf] F6 [sf|rb] B4 [sb|rf] F7 [sf|rb] B5 sb rb B6 sb rb B7 sb",
      "rf F0 sf rf F1 [sf|rb] B0 [sb|rf] F2 [sf|rb] B1 [sb|rf] F3 [sf|rb] B2 [sb|rf] F4 [sf|rb] "
      "B3 [sb|rf] F5 [sf|rb] B4 [sb|rf] F6 [sf|rb] B5 [sb|rf] F7 [sf|rb] B6 sb rb B7 sb",
      "rf F0 B0 [sb|rf] F1 B1 [sb|rf] F2 B2 [sb|rf] F3 B3 [sb|rf] F4 B4 [sb|rf] F5 B5 [sb|rf] F6 "
      "B6 [sb|rf] F7 B7 sb"};
  EXPECT_EQ(texts(plan("1f1b", 4, 8), Labels::brief), expected);
  EXPECT_EQ(texts(with(plan("1f1b", 4, 8), kTorch), Labels::brief), expected);
}

TEST(OneFOneB, CountsBatchedKernelsAndMessages) {
  EXPECT_THAT(kernels(plan("1f1b", 4, 8)), ElementsAre(11, 21, 19, 9));
  EXPECT_THAT(messages(plan("1f1b", 4, 8)), ElementsAre(16, 32, 32, 16));
  EXPECT_THAT(kernels(with(plan("1f1b", 4, 8), Batching::single)), ElementsAre(16, 32, 32, 16));
}

TEST(OneFOneB, FewMicrobatchesTellMegatronFromTorch) {
  const auto torch = [](int p, int m) { return kernels(with(plan("1f1b", p, m), kTorch)); };
  EXPECT_THAT(kernels(plan("1f1b", 4, 2)), ElementsAre(4, 8, 7, 3));
  EXPECT_THAT(torch(4, 2), ElementsAre(3, 7, 7, 3));
  EXPECT_THAT(kernels(plan("1f1b", 2, 1)), ElementsAre(2, 2));
  EXPECT_THAT(torch(2, 1), ElementsAre(1, 2));
  EXPECT_THAT(kernels(plan("1f1b", 4, 4)), ElementsAre(7, 13, 11, 5));
  EXPECT_THAT(torch(4, 4), ElementsAre(7, 13, 11, 5));
}

TEST(OneFOneB, ClosedFormsHoldWheneverMicrobatchesCoverTheStages) {
  for (int p = 2; p <= 8; ++p) {
    for (int m = p; m <= 16; ++m) {
      const auto got = kernels(plan("1f1b", p, m));
      EXPECT_EQ(got.front(), m + p - 1);
      EXPECT_EQ(got.back(), m + 1);
      for (int s = 1; s < p - 1; ++s)
        EXPECT_EQ(got[static_cast<size_t>(s)], 2 * m + 2 * (p - 1 - s) + 1) << p << " " << m;
    }
  }
}

TEST(OneFOneB, InferenceKeepsTheForwardHalf) {
  EXPECT_THAT(texts(inference(plan("1f1b", 2, 3)), Labels::brief),
              ElementsAre("F0 sf F1 sf F2 sf", "rf F0 rf F1 rf F2"));
}

TEST(OneFOneB, OneStageOnlyComputes) {
  EXPECT_THAT(texts(plan("1f1b", 1, 3)), ElementsAre("F0 B0 F1 B1 F2 B2"));
}

TEST(OneFOneB, SingleLaunchesMoveTheActivationBeforeTheGradient) {
  EXPECT_THAT(texts(with(plan("1f1b", 2, 3), Batching::single)),
              ElementsAre("F0 sf0 F1 sf1 rb0 B0 F2 sf2 rb1 B1 rb2 B2",
                          "rf0 F0 B0 rf1 sb0 F1 B1 rf2 sb1 F2 B2 sb2"));
}

TEST(GPipe, FillsAndDrainsForward) {
  EXPECT_THAT(texts(plan("gpipe", 2, 3)), ElementsAre("F0 sf0 F1 sf1 F2 sf2 rb0 B0 rb1 B1 rb2 B2",
                                                      "rf0 F0 rf1 F1 rf2 F2 B0 sb0 B1 sb1 B2 sb2"));
}

TEST(GPipe, DrainsReversedWhenAsked) {
  EXPECT_THAT(texts(with(plan("gpipe", 2, 3), Drain::reversed)),
              ElementsAre("F0 sf0 F1 sf1 F2 sf2 rb2 B2 rb1 B1 rb0 B0",
                          "rf0 F0 rf1 F1 rf2 F2 B2 sb2 B1 sb1 B0 sb0"));
}

TEST(GPipe, EveryMessageIsItsOwnKernelAndAllMicrobatchesAreHeld) {
  EXPECT_THAT(kernels(plan("gpipe", 4, 8)), ElementsAre(16, 32, 32, 16));
  EXPECT_THAT(messages(plan("gpipe", 4, 8)), ElementsAre(16, 32, 32, 16));
  EXPECT_THAT(peaks(plan("gpipe", 4, 8)), ElementsAre(8, 8, 8, 8));
}

TEST(GPipe, TwoStagesLaunchTwoKernelsPerMicrobatch) {
  EXPECT_THAT(kernels(plan("gpipe", 2, 1)), ElementsAre(2, 2));
  EXPECT_THAT(kernels(with(plan("gpipe", 2, 8), Drain::reversed)), ElementsAre(16, 16));
}

TEST(DeepSpeed, PutsTheGradientBeforeTheActivationOnTheWire) {
  const std::vector<std::string> expected{
      "F0 sf0 F1 sf1 F2 sf2 F3 rb0 sf3 B0 F4 rb1 sf4 B1 F5 rb2 sf5 B2 F6 rb3 sf6 B3 F7 rb4 sf7 B4 "
      "rb5 B5 rb6 B6 rb7 B7",
      "rf0 F0 sf0 rf1 F1 sf1 rf2 F2 rb0 sf2 B0 sb0 rf3 F3 rb1 sf3 B1 sb1 rf4 F4 rb2 sf4 B2 sb2 rf5 "
      "F5 rb3 sf5 B3 sb3 rf6 F6 rb4 sf6 B4 sb4 rf7 F7 rb5 sf7 B5 sb5 rb6 B6 sb6 rb7 B7 sb7",
      "rf0 F0 sf0 rf1 F1 rb0 sf1 B0 sb0 rf2 F2 rb1 sf2 B1 sb1 rf3 F3 rb2 sf3 B2 sb2 rf4 F4 rb3 sf4 "
      "B3 sb3 rf5 F5 rb4 sf5 B4 sb4 rf6 F6 rb5 sf6 B5 sb5 rf7 F7 rb6 sf7 B6 sb6 rb7 B7 sb7",
      "rf0 F0 B0 sb0 rf1 F1 B1 sb1 rf2 F2 B2 sb2 rf3 F3 B3 sb3 rf4 F4 B4 sb4 rf5 F5 B5 sb5 rf6 F6 "
      "B6 sb6 rf7 F7 B7 sb7"};
  EXPECT_EQ(texts(plan("deepspeed", 4, 8)), expected);
  EXPECT_THAT(kernels(plan("deepspeed", 4, 8)), ElementsAre(16, 32, 32, 16));
}

TEST(DeepSpeed, InferenceAlternatesSendsAndReceives) {
  EXPECT_THAT(texts(inference(plan("deepspeed", 3, 3))),
              ElementsAre("F0 sf0 F1 sf1 F2 sf2", "rf0 F0 rf1 sf0 F1 rf2 sf1 F2 sf2",
                          "rf0 F0 rf1 F1 rf2 F2"));
}

struct InterleavedRow {
  int p, v, m;
  PipelineVariant variant;
  std::vector<int> warm_up, kernels, operations;
};

class Interleaved : public ::testing::TestWithParam<InterleavedRow> {};

TEST_P(Interleaved, CountsWarmUpKernelsAndOperations) {
  const InterleavedRow& row = GetParam();
  const PipelinePlan p = with(plan("interleaved", row.p, row.m, row.v), row.variant);
  EXPECT_EQ(warm_ups(p), row.warm_up);
  EXPECT_EQ(kernels(p), row.kernels);
  EXPECT_EQ(messages(p), row.operations);
  EXPECT_EQ(kernels(with(p, Batching::overlapped)), row.operations);
}

INSTANTIATE_TEST_SUITE_P(
    Megatron, Interleaved,
    ::testing::Values(
        InterleavedRow{4, 2, 8, kM08, {10, 8, 6, 4}, {25, 25, 23, 21}, {48, 64, 64, 48}},
        InterleavedRow{4, 2, 8, kMN, {10, 8, 6, 4}, {25, 25, 23, 21}, {48, 64, 64, 48}},
        InterleavedRow{4, 2, 4, kM08, {8, 8, 8, 8}, {16, 18, 18, 16}, {24, 32, 32, 24}},
        InterleavedRow{4, 2, 4, kMN, {8, 8, 6, 4}, {16, 18, 15, 13}, {24, 32, 32, 24}},
        InterleavedRow{2, 2, 8, kMN, {4, 2}, {19, 19}, {48, 48}},
        InterleavedRow{4, 4, 8, kMN, {18, 16, 14, 12}, {49, 49, 47, 45}, {112, 128, 128, 112}}));

TEST(InterleavedOrder, TwoRanksTwoChunksWrapAround) {
  EXPECT_THAT(texts(plan("interleaved", 2, 2, 2)),
              ElementsAre("F0 sf0 F1 [sf1|rf0.1] F0.1 [sf0.1|rf1.1] F1.1 sf1.1 rb0.1 B0.1 "
                          "[sb0.1|rb1.1] B1.1 [sb1.1|rb0] B0 rb1 B1",
                          "rf0 F0 [sf0|rf1] F1 [sf1|rf0.1] F0.1 B0.1 [sb0.1|rf1.1] F1.1 B1.1 "
                          "[sb1.1|rb0] B0 [sb0|rb1] B1 sb1"));
}

// Megatron's overlap_p2p_comm: what a forward made leaves before the backward that follows it.
TEST(InterleavedOrder, OverlappedActivationsGoBeforeTheBackward) {
  EXPECT_EQ(texts(with(plan("interleaved", 2, 2, 2), Batching::overlapped)).at(1),
            "rf0 F0 rf1 sf0 F1 rf0.1 sf1 F0.1 rf1.1 B0.1 sb0.1 F1.1 B1.1 rb0 sb1.1 B0 rb1 sb0 B1 "
            "sb1");
}

TEST(InterleavedOrder, GroupsOfMicrobatchesFollowMegatronsTable) {
  PipelinePlan p = plan("interleaved", 2, 5, 2);
  p.group = 3;
  const RankedActions ranks = build_schedule(p);
  std::string forwards;
  for (const Action& a : ranks[0])
    if (a.kind == ActionKind::forward) forwards += to_string(a) + " ";
  EXPECT_EQ(forwards, "F0 F1 F2 F0.1 F1.1 F2.1 F3 F4 F3.1 F4.1 ");
}

// torch 2.6 ScheduleInterleaved1F1B, as tests/recorded/interleaved_p2_v2_m4.json has its messages.
TEST(InterleavedSteps, SendWithWhatTheNeighbourComputedInTheSameStep) {
  EXPECT_THAT(
      texts(plan("interleaved_steps", 2, 2, 2)),
      ElementsAre("F0 sf0 F1 [sf1|rf0.1] F0.1 [sf0.1|rf1.1] F1.1 sf1.1 rb0.1 B0.1 [sb0.1|rb1.1] "
                  "B1.1 [sb1.1|rb0] B0 rb1 B1",
                  "rf0 F0 [sf0|rf1] F1 [sf1|rf0.1] rf1.1 F0.1 B0.1 sb0.1 F1.1 B1.1 [sb1.1|rb0] B0 "
                  "[sb0|rb1] B1 sb1"));
}

TEST(InterleavedSteps, NeedAMultipleOfTheRanks) {
  EXPECT_THAT(refusals(plan("interleaved_steps", 2, 3, 2)),
              ElementsAre(HasSubstr("3 microbatches on 2 ranks")));
}

TEST(InterleavedOrder, MoreChunksMeanMoreBoundaryMessages) {
  const auto forward_messages = [](const PipelinePlan& p) {
    int n = 0;
    for (const ActionList& list : build_schedule(p))
      for (const Action& a : list) n += a.kind == ActionKind::send_activation;
    return n;
  };
  EXPECT_EQ(forward_messages(plan("1f1b", 4, 8)), 24);
  EXPECT_EQ(forward_messages(plan("interleaved", 4, 8, 2)), 56);
}

TEST(Schedules, TableHasOneRowPerNameWithWords) {
  std::set<std::string_view> names;
  for (const ScheduleDef& s : schedules()) {
    EXPECT_TRUE(names.insert(s.name).second);
    EXPECT_FALSE(s.description.empty());
    EXPECT_FALSE(s.source.empty());
    EXPECT_FALSE(s.batchings.empty());
    EXPECT_EQ(find_schedule(s.name), &s);
  }
  EXPECT_EQ(find_schedule("zb"), nullptr);
}

TEST(Refusals, SpeakMegatronsWords) {
  EXPECT_THAT(refusals(with(plan("interleaved", 4, 6, 2), kM08)),
              ElementsAre("the number of microbatches (6) is not divisible by the "
                          "pipeline-model-parallel size (4), which the interleaved schedule of "
                          "Megatron core 0.8 requires"));
  EXPECT_THAT(refusals(plan("interleaved", 4, 6, 2)),
              ElementsAre("6 microbatches in groups of 4 leave 2; the remainder must be 0 or at "
                          "least the pipeline-model-parallel size (4)"));
  EXPECT_THAT(refusals(plan("interleaved", 4, 2, 2)), ElementsAre(HasSubstr("must lie between")));
  EXPECT_THAT(refusals(plan("1f1b", 4, 8, 2)), ElementsAre(HasSubstr("use interleaved")));
}

TEST(Refusals, CoverEverySizeAndOption) {
  EXPECT_THAT(refusals(plan("1f1b", 0, -1)),
              ElementsAre(HasSubstr("pipeline-model-parallel size is 0"),
                          HasSubstr("number of microbatches is -1")));
  EXPECT_THAT(refusals(with(plan("1f1b", 4, 8), Batching::overlapped)),
              ElementsAre(HasSubstr("overlapped")));
  EXPECT_THAT(refusals(with(plan("1f1b", 4, 8), Drain::reversed)),
              ElementsAre(HasSubstr("only gpipe")));
  EXPECT_THAT(refusals(plan("1f1", 4, 8)), ElementsAre(HasSubstr("Did you mean \"1f1b\"?")));
  EXPECT_THAT(refusals(plan("gpipe", 1 << 15, 1 << 15)),
              ElementsAre(HasSubstr("too many actions")));
}

TEST(Refusals, AnUnvalidatedPlanIsOurFault) {
  EXPECT_THROW(build_schedule(plan("1f1b", 4, 0)), Fault);
}

}  // namespace
}  // namespace s2t
