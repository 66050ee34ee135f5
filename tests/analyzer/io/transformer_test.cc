// What Megatron issues for published models: counts and bytes per layer, stage
// and step. Sources: Megatron core (tensor_parallel, distributed), Narayanan et
// al. 2021 (arXiv 2104.04473), Korthikanti et al. 2022 (arXiv 2205.05198).
#include "analyzer/io/transformer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "analyzer/program/modules.h"
#include "analyzer/program/tally.h"
#include "tests/analyzer/io/predicted.h"

namespace s2t {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
// --- one layer
// -----------------------------------------------------------------------------------

constexpr const char* kS = "tp all_reduce 67108864>67108864";
constexpr const char* kGather = "tp all_gather 8388608>67108864";
constexpr const char* kScatter = "tp reduce_scatter 67108864>8388608";

TEST(MegatronLayer, WithTensorParallelismIsTwoAllReducesEachWay) {
  const Program p = predict(dense(2, 8192, 64), plan_of(8, 4096, false));
  EXPECT_EQ(of(p, Phase::forward, "layers.1."), (Counts{{kS, 2}}));
  EXPECT_EQ(of(p, Phase::backward, "layers.1."), (Counts{{kS, 2}}));
  EXPECT_EQ(of(p, Phase::forward, "embed"), (Counts{{kS, 1}}));
  EXPECT_EQ(of(p, Phase::backward, "embed"), Counts{});
  EXPECT_EQ(of(p, Phase::forward, "head"), Counts{});
  EXPECT_EQ(of(p, Phase::backward, "head"), (Counts{{kS, 1}}));
}

// Six all-gathers, not four: the backward gathers the input of each column
// linear again.
TEST(MegatronLayer, WithSequenceParallelismGathersSixTimesAndScattersFour) {
  const Program p = predict(dense(2, 8192, 64), plan_of(8, 4096, true));
  EXPECT_EQ(of(p, Phase::forward, "layers.1."), (Counts{{kGather, 2}, {kScatter, 2}}));
  EXPECT_EQ(of(p, Phase::backward, "layers.1."), (Counts{{kGather, 4}, {kScatter, 2}}));
  EXPECT_EQ(of(p, Phase::forward, "embed"), (Counts{{kScatter, 1}}));
  EXPECT_EQ(of(p, Phase::backward, "embed"), (Counts{{kGather, 1}}));
  EXPECT_EQ(of(p, Phase::forward, "head"), (Counts{{kGather, 1}}));
  EXPECT_EQ(of(p, Phase::backward, "head"), (Counts{{kGather, 1}, {kScatter, 1}}));
}

TEST(MegatronLayer, GroupedHeadsAndBiasesChangeNothing) {
  Architecture a = gpt(2, 8192, 64);
  a.kv_heads = 8;
  a.qk_norm = QkNorm::per_head;
  a.norm = Norm::rms;
  const Program p = predict(a, plan_of(8, 4096, true));
  EXPECT_EQ(of(p, Phase::forward, "layers.1."), (Counts{{kGather, 2}, {kScatter, 2}}));
  EXPECT_EQ(of(p, Phase::backward, "layers.1."), (Counts{{kGather, 4}, {kScatter, 2}}));
}

// Learned positions are added to whole tokens, rotary ones need none.
TEST(MegatronLayer, LearnedPositionsReduceThenSliceInsteadOfScattering) {
  const Program p = predict(gpt(1, 8192, 64), plan_of(8, 4096, true));
  EXPECT_EQ(of(p, Phase::forward, "embed"), (Counts{{kS, 1}}));
  EXPECT_EQ(of(p, Phase::backward, "embed"), (Counts{{kGather, 1}}));
}

TEST(MegatronLayer, VocabularyParallelLossIsThreeSmallAllReduces) {
  const Program p = predict(dense(1, 12288, 96), plan_of(8, 2048, true));
  EXPECT_EQ(of(p, Phase::forward, "loss"), (Counts{{"tp all_reduce 8192>8192", 3}}));
  EXPECT_EQ(of(p, Phase::backward, "loss"), Counts{});
}

// Two numbers per token in one call: the sum of exponentials and the target's logit.
TEST(MegatronLayer, AFusedLossIsTwoAllReduces) {
  const Program p = predict(dense(1, 12288, 96), plan_of(8, 2048, true), {"cross_entropy=fused"});
  EXPECT_EQ(of(p, Phase::forward, "loss"),
            (Counts{{"tp all_reduce 8192>8192", 1}, {"tp all_reduce 16384>16384", 1}}));
  EXPECT_EQ(of(p, Phase::backward, "loss"), Counts{});
}

// --- a step
// --------------------------------------------------------------------------------------

TEST(MegatronStep, NormGradientsUnderSequenceParallelismAreOneCallOverTp) {
  EXPECT_THAT(after(predict(dense(80, 8192, 64), plan_of(8, 4096, true))),
              ElementsAre("tp all_reduce 5275648>5275648"));
  EXPECT_THAT(after(predict(gpt(80, 8192, 64), plan_of(8, 4096, true))),
              ElementsAre("tp all_reduce 15794176>15794176"));
  EXPECT_THAT(after(predict(gpt(80, 8192, 64), plan_of(8, 4096, false))), IsEmpty());
}

// Twelve layers per stage: 48 all-reduces per microbatch.
TEST(MegatronStep, OfGpt3MovesOneActivationPerAllReduce) {
  Plan plan = plan_of(8, 2048, false);
  plan.pp = 4;
  const Program p = predict(gpt(48, 12288, 96), plan);
  const std::string ar = "tp all_reduce 50331648>50331648";
  EXPECT_EQ(of(p, Phase::forward, "layers.5."), (Counts{{ar, 2}}));
  EXPECT_EQ(p.stages.at(2).forward.items.size() + p.stages.at(2).backward.items.size(), 48u);
  EXPECT_EQ(p.stages.at(2).forward.items.at(0).event.volume.wire_bytes * 4, 352'321'536u);
}

TEST(MegatronStep, MessagesBetweenStagesAreDividedByTpUnderSequenceParallelism) {
  Plan plan = plan_of(8, 2048, false);
  plan.pp = 2;
  const Program whole = predict(dense(2, 25600, 160), plan);
  EXPECT_EQ(whole.stages.at(0).send_activation.at(0).volume.input_bytes, 104'857'600u);
  plan.sp = true;
  const Program shard = predict(dense(2, 25600, 160), plan);
  EXPECT_EQ(shard.stages.at(0).send_activation.at(0).volume.input_bytes, 13'107'200u);
  EXPECT_EQ(shard.stages.at(1).send_gradient.at(0).volume.input_bytes, 13'107'200u);
}

TEST(MegatronStep, ATiedTableIsReducedBetweenTheFirstAndTheLastStageOnce) {
  Plan plan = plan_of(8, 2048, false);
  plan.pp = 4;
  plan.global_batch = 8;
  const std::string embd = "embd all_reduce 314572800>314572800";
  EXPECT_THAT(after(predict(gpt(4, 12288, 96), plan)), ElementsAre(embd));
  Architecture untied = gpt(4, 12288, 96);
  untied.tied = false;
  EXPECT_THAT(after(predict(untied, plan)), IsEmpty());
  plan.pp = 1;
  EXPECT_THAT(after(predict(gpt(4, 12288, 96), plan)), IsEmpty());
}

TEST(MegatronStep, ATiedTableIsReducedOnTheOuterStagesOnly) {
  Plan plan = plan_of(8, 2048, false);
  plan.global_batch = 8;
  plan.pp = 4;
  const auto ranks = [&] {
    const Program p = predict(gpt(4, 12288, 96), plan);
    for (const Event& e : p.after)
      if (p.families.at(e.family).name == "embd") return e.ranks.along;
    throw std::out_of_range("embd");
  };
  ASSERT_EQ(ranks().size(), 1u);
  EXPECT_THAT(ranks()[0].coordinates, ElementsAre(0, 3));
  plan.pp = 2;  // every stage is an outer one
  EXPECT_THAT(ranks(), IsEmpty());
}

TEST(MegatronStep, LayersAreDividedByThePipelineOnce) {
  Architecture a = dense(80, 8192, 64);
  a.ffn = 22016;
  a.vocab = 32000;
  Plan plan = plan_of(2, 2048, false);
  plan.pp = 8;
  plan.global_batch = 8;
  const Program p = predict(a, plan);
  Count calls = 0, messages = 0;
  for (const SummaryRow& row : summarize(p)) {
    if (row.stage != 3) continue;
    if (row.phase == Phase::forward && row.op == Collective::all_reduce) calls += row.calls;
    if (row.op == Collective::send && row.phase == Phase::forward) {
      messages += row.calls;
      EXPECT_EQ(row.max_input_bytes, 33'554'432u);
    }
  }
  EXPECT_EQ(calls, 160u);
  EXPECT_EQ(messages, 8u);
}

// 50257 rows are padded to 50304, in the embedding and in the output layer.
TEST(MegatronStep, DenseGradientsAreOneBucketInFloat32OncePerStep) {
  Architecture a = dense(2, 1024, 8);
  a.vocab = 50257;
  Plan plan = plan_of(1, 512, false);
  plan.dp = 4;
  plan.global_batch = 32;
  const Program p = predict(a, plan);
  const Count padded = parameter_count(a) + 2 * (50304 - 50257) * 1024;
  EXPECT_THAT(after(p), ElementsAre(fmt::format("dp all_reduce {0}>{0}", 4 * padded)));
  EXPECT_EQ(p.parameters, parameter_count(a));
  EXPECT_EQ(p.remarks.at(0).slug, "vocabulary-padded");
}

TEST(MegatronStep, ADistributedOptimizerScattersFloat32AndGathersParameters) {
  Plan plan = plan_of(1, 512, false);
  plan.dp = 4;
  plan.zero = 1;
  const Count n = parameter_count(dense(2, 1024, 8));
  EXPECT_THAT(after(predict(dense(2, 1024, 8), plan)),
              ElementsAre(fmt::format("dp reduce_scatter {}>{}", 4 * n, n),
                          fmt::format("dp all_gather {}>{}", n / 2, 2 * n)));
}

TEST(MegatronStep, StatedStagesHoldTheirLayers) {
  Architecture a = dense(126, 16384, 128);
  a.kv_heads = 8;
  a.ffn = 53248;
  a.vocab = 128256;
  Plan plan = plan_of(8, 8192, true);
  plan.pp = 16;
  plan.dp = 128;
  plan.global_batch = 2048;
  plan.stage_layers = {7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7};
  const Program p = predict(a, plan);
  EXPECT_EQ(p.parameters, 405'853'388'800u);
  EXPECT_EQ(p.mesh.world(), 16384);
  EXPECT_EQ(p.microbatches, 16);
  EXPECT_EQ(p.stages.at(0).forward.items.size(),
            4u * 7 + 1 + 3);  // and the embedding, tokens, mask and positions
  EXPECT_EQ(p.stages.at(7).forward.items.size(), 4u * 8);
}

// --- experts
// -------------------------------------------------------------------------------------

// 4096 tokens x 2 experts x 4096 x 2 B; attention needs nothing at tp 1.
TEST(MegatronExperts, ExchangeTokensTwiceAndTheirWeightsOnceEachWay) {
  Plan plan = plan_of(1, 4096, false);
  plan.dp = plan.ep = 8;
  const Program p = predict(mixtral(2), plan);
  const Counts exchanges{{"ep all_to_all 67108864>67108864", 2}, {"ep all_to_all 16384>16384", 1}};
  EXPECT_EQ(of(p, Phase::forward, "layers.1."), exchanges);
  EXPECT_EQ(of(p, Phase::backward, "layers.1."), exchanges);
  EXPECT_THAT(calls(p), Contains("layers.1.moe.counts ep all_gather 64>512"));
  // The experts have no group of their own: each lives on one rank.
  EXPECT_THAT(after(p), ElementsAre(HasSubstr("dp all_reduce")));
}

TEST(MegatronExperts, AreReducedOverTheirOwnDataGroup) {
  Plan plan = plan_of(1, 4096, false);
  plan.dp = 8;
  plan.ep = 4;
  const Program p = predict(mixtral(1), plan);
  const Count experts = Count{2} * 3 * 4096 * 14336 * 4;  // two of them, float32
  EXPECT_THAT(after(p), Contains(fmt::format("edp all_reduce {0}>{0}", experts)));
}

// Expert groups fold over tp: each tp rank routes its own tokens, whole experts
// need no exchange over tp, and the router's gradient joins the norms'.
TEST(MegatronExperts, FoldOverTensorParallelRanks) {
  Plan plan = plan_of(2, 4096, true);
  plan.dp = 4;
  plan.ep = 8;
  plan.etp = 1;
  const Program p = predict(mixtral(1), plan);
  EXPECT_EQ(of(p, Phase::forward, "layers.0.moe"),
            (Counts{{"ep all_to_all 33554432>33554432", 2}, {"ep all_to_all 8192>8192", 1}}));
  const Count small = (3 * 4096 + 8 * 4096) * 4;
  EXPECT_THAT(after(p), Contains(fmt::format("tp all_reduce {0}>{0}", small)));
}

// Rows are gathered before and scattered after the split experts.
TEST(MegatronExperts, MaySplitOverTensorParallelRanks) {
  Plan plan = plan_of(2, 4096, true);
  plan.dp = plan.ep = 4;
  const Program p = predict(mixtral(1), plan);
  EXPECT_EQ(of(p, Phase::forward, "layers.0.moe"),
            (Counts{{"ep all_to_all 33554432>33554432", 2},
                    {"ep all_to_all 8192>8192", 1},
                    {"etp all_gather 33554432>67108864", 1},
                    {"etp all_gather 8192>16384", 1},
                    {"etp reduce_scatter 67108864>33554432", 1}}));
  EXPECT_EQ(of(p, Phase::backward, "layers.0.moe"),
            (Counts{{"ep all_to_all 33554432>33554432", 2},
                    {"ep all_to_all 8192>8192", 1},
                    {"etp all_gather 33554432>67108864", 1},
                    {"etp reduce_scatter 67108864>33554432", 1},
                    {"etp reduce_scatter 16384>8192", 1}}));
}

TEST(MegatronExperts, DenseFirstLayersHaveNone) {
  Architecture a = mixtral(3);
  a.experts->first_dense = 1;
  a.experts->shared_ffn = 2048;
  Plan plan = plan_of(1, 128, false);
  plan.dp = plan.ep = 2;
  const Program p = predict(a, plan);
  EXPECT_EQ(of(p, Phase::forward, "layers.0."), Counts{});
  EXPECT_EQ(of(p, Phase::forward, "layers.1.").size(), 2u);
}

// --- plans
// ---------------------------------------------------------------------------------------

// DeepSeek-V3 as reported: 2048 GPUs.
TEST(Plan, DerivesExpertGroupsAndMicrobatches) {
  Plan plan = plan_of(1, 4096, false);
  plan.pp = 16;
  plan.dp = 128;
  plan.ep = 64;
  plan.global_batch = 15360;
  EXPECT_EQ(plan.ranks(), 2048);
  EXPECT_EQ(plan.expert_dp(), 2);
  EXPECT_EQ(plan.microbatches(), 120);
}

TEST(Plan, EveryMistakeSaysWhatWouldFit) {
  Architecture a = mixtral(32);
  Plan plan;
  plan.tp = 16;
  plan.pp = 5;
  plan.dp = 3;
  plan.ep = 3;
  plan.etp = 1;
  plan.global_batch = 4;
  plan.sp = true;
  plan.world = 8;
  EXPECT_THAT(refusals(a, plan),
              UnorderedElementsAre(
                  HasSubstr("--world: 8 ranks, but tp 16 x pp 5 x cp 1 x dp 3 are 240"),
                  HasSubstr("--tp: 16 does not divide the 8 key-value heads; expected "
                            "1, 2, 4 or 8"),
                  HasSubstr("--seq: the number of tokens per sample is not given"),
                  HasSubstr("--pp: 32 layers do not divide into 5 stages; expected 1, "
                            "2, 4, 8"),
                  HasSubstr("--ep: 3 does not divide the 8 experts; expected 1, 2, 4 or 8"),
                  HasSubstr("--global-batch: 4 samples do not divide over dp 3 x "
                            "microbatches "
                            "of 1; expected 3 or 6 (multiples of 3)")));
}

TEST(Modules, CountTheMessagesOfAllChunksOfARank) {
  Plan plan = plan_of(1, 128, false);
  plan.pp = 4;
  plan.vpp = 2;
  plan.global_batch = 8;
  const Program p = predict(dense(8, 64, 4), plan);
  for (const Collective op : {Collective::send, Collective::recv})
    for (int32_t r = 0; r < 4; ++r) {
      Count counted = 0;
      for (const ModuleRow& row : module_rows(p))
        for (const ModuleCalls& c : row.calls)
          if (c.op == op && std::count(row.stages.begin(), row.stages.end(), r))
            counted += row.times * c.calls;
      EXPECT_EQ(counted, class_of(p, Rank(r)).operations[static_cast<size_t>(op)]) << "rank " << r;
    }
}

TEST(Plan, HasNoMoreMicrobatchesThanAModelFile) {
  Plan plan = plan_of(1, 128, false);
  plan.pp = 2;
  plan.global_batch = 1'000'000'007;
  EXPECT_THAT(refusals(dense(2, 64, 4), plan),
              ElementsAre(HasSubstr("1,000,000,007 microbatches on 2 stages; expected at most "
                                    "1,048,576 of both multiplied")));
}

TEST(Plan, WhatIsNotModelledIsRefusedByName) {
  Plan plan = plan_of(1, 128, false);
  plan.tp = 2;
  EXPECT_THAT(refusals(mixtral(2), plan), ElementsAre(HasSubstr("--sp too")));
}

TEST(Plan, ARankOrderIsWrittenAsMegatronWritesIt) {
  Plan plan = plan_of(2, 128, false);
  plan.pp = plan.dp = 2;
  const auto of_pp = [&](const std::string& order) {
    plan.order = order;
    const Program p = predict(dense(2, 64, 4), plan);
    return p.mesh.groups(p.mesh.family_of(p.mesh.find("pp")->atoms)).at(0);
  };
  EXPECT_THAT(of_pp("tp-pp-dp"), ElementsAre(Rank(0), Rank(2)));
  EXPECT_THAT(of_pp("tp-dp-pp"), ElementsAre(Rank(0), Rank(4)));
  EXPECT_THAT(of_pp(""), ElementsAre(Rank(0), Rank(4)));
  plan.order = "tp-xx-dp";
  EXPECT_THAT(refusals(dense(2, 64, 4), plan), ElementsAre(HasSubstr("--order")));
}

// tensor_parallel/cross_entropy.py: the maximum, the target's logit, the sum of exponentials.
TEST(Megatron, TheLossReducesTheTargetBeforeTheSum) {
  const Program p = predict(dense(1, 64, 4), plan_of(2, 8, false));
  std::vector<std::string> reduced;
  for (const Segment::Item& item : p.stages[0].forward.items)
    if (item.event.module == "loss") reduced.push_back(item.event.tensor);
  EXPECT_THAT(reduced, ElementsAre("loss.max", "loss.picked", "loss.sum_exp"));
}

}  // namespace
}  // namespace s2t
