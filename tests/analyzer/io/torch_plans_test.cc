// What torchtitan and DeepSpeed add to a plan: sequence-parallel heads, partitioned borders.
#include <gmock/gmock.h>

#include "tests/analyzer/io/framework_steps.h"

namespace s2t {
namespace {

using framework_steps::Lines;
using framework_steps::step;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Architecture grouped() {
  Architecture a = framework_steps::llama(1, 64, 8, 96);
  a.kv_heads = 4;
  return a;
}

Plan ulysses(int64_t cp, int64_t dp) {
  Plan p = framework_steps::split_of(1, dp, 32);
  p.cp = cp;
  return p;
}

// --- DeepSpeed-Ulysses ---------------------------------------------------------------------------

// sequence/layer.py, DistributedAttention, below a model that repeats keys and values before it:
// 8 tokens x 8 heads x 8 x 2 B of each.
TEST(Ulysses, ExchangesQueriesKeysValuesAndResultsEachWay) {
  const Program p = predict(grouped(), ulysses(4, 2), profile_of("deepspeed"));
  const Counts four{{"cp all_to_all 1024>1024", 4}};
  EXPECT_EQ(of(p, Phase::forward, "layers.0.attn"), four);
  EXPECT_EQ(of(p, Phase::backward, "layers.0.attn"), four);
}

TEST(Ulysses, MayExchangeTheHeadsOfKeysAndValuesAsTheyAre) {
  const Program p =
      predict(grouped(), ulysses(4, 2), profile_of("deepspeed", {"exchanged_kv_heads=own"}));
  EXPECT_EQ(of(p, Phase::forward, "layers.0.attn"),
            (Counts{{"cp all_to_all 1024>1024", 2}, {"cp all_to_all 512>512", 2}}));
}

// runtime/engine.py: seq_data_parallel_group, and float32 whenever sequences are split.
TEST(Ulysses, ReducesGradientsInFloat32OverTheRanksOfSequencesAndData) {
  const Program p = predict(grouped(), ulysses(4, 2), profile_of("deepspeed"));
  const std::string bytes = std::to_string(4 * p.parameters);
  EXPECT_THAT(step(p, 0, Phase::grad_sync), ElementsAre("dp-cp all_reduce " + bytes + ">" + bytes));
}

// Megatron-DeepSpeed core/sequence_parallel/cross_entropy.py: float32 of 8 tokens each.
TEST(Ulysses, GathersTheLossOfEveryToken) {
  EXPECT_THAT(calls(predict(grouped(), ulysses(4, 2), profile_of("deepspeed"))),
              Contains("loss.tokens cp all_gather 32>128"));
  EXPECT_THAT(
      calls(predict(grouped(), ulysses(4, 2), profile_of("deepspeed", {"sequence_loss=none"}))),
      Not(Contains(HasSubstr("loss.tokens"))));
}

TEST(Ulysses, ShardsParametersOverSequencesToo) {
  Plan plan = ulysses(2, 2);
  plan.zero = 3;
  const Program p = predict(grouped(), plan, profile_of("deepspeed"));
  EXPECT_THAT(step(p, 0, Phase::grad_sync), Each(HasSubstr("dp-cp reduce_scatter")));
}

TEST(Ulysses, IsRefusedBesideWhatMegatronDeepSpeedRefuses) {
  Plan plan = ulysses(2, 1);
  plan.tp = 2;
  EXPECT_THAT(refusals(grouped(), plan, profile_of("deepspeed")),
              ElementsAre(HasSubstr("beside tensor parallelism or a pipeline")));
  plan = ulysses(16, 1);
  EXPECT_THAT(refusals(grouped(), plan, profile_of("deepspeed")),
              ElementsAre(HasSubstr("8 heads over 16 ranks")));
  EXPECT_THAT(refusals(grouped(), ulysses(2, 1), profile_of("deepspeed", {"context_parallel=p2p"})),
              ElementsAre(HasSubstr("context_parallel=p2p")));
}

// runtime/engine.py, _configure_zero_optimizer.
TEST(DeepSpeed, HasNoExpertsUnderStageThree) {
  Plan plan = framework_steps::split_of(1, 8, 64);
  plan.ep = 4;
  plan.zero = 3;
  EXPECT_THAT(refusals(framework_steps::mixtral(1, 64, 8, 2), plan, profile_of("deepspeed")),
              Contains(HasSubstr("MoE not supported with Stage 3")));
}

}  // namespace
}  // namespace s2t
