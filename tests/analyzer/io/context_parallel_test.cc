// Context parallelism under Megatron: a ring of messages, gathered keys and values, exchanged heads.
#include <gmock/gmock.h>

#include "analyzer/program/listing.h"
#include "analyzer/program/tally.h"
#include "tests/analyzer/io/predicted.h"

namespace s2t {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// DeepSpeed-Ulysses (arXiv 2309.14509): 4 N h / P elements per layer and forward.
TEST(ContextParallel, ByExchangedHeadsIsFourAllToAllsEachWay) {
  Plan plan = plan_of(1, 131072, false);
  plan.cp = 64;
  const Program p = predict(dense(1, 8192, 64), plan, {"context_parallel=a2a"});
  const Counts four{{"cp all_to_all 33554432>33554432", 4}};  // 16,777,216 elements each
  EXPECT_EQ(of(p, Phase::forward, "layers.0.attn"), four);
  EXPECT_EQ(of(p, Phase::backward, "layers.0.attn"), four);
}

TEST(ContextParallel, ByGatheredKeysAndValuesGathersThemAgain) {
  Plan plan = plan_of(1, 8192, false);
  plan.cp = 4;
  Architecture a = dense(1, 4096, 32);
  a.kv_heads = 8;
  const Program p = predict(a, plan, {"context_parallel=all_gather"});
  const std::string gather = "cp all_gather 4194304>16777216";  // 2048 x 8 x 128 x 2 B
  EXPECT_EQ(of(p, Phase::forward, "layers.0.attn"), (Counts{{gather, 2}}));
  EXPECT_EQ(of(p, Phase::backward, "layers.0.attn"),
            (Counts{{gather, 2}, {"cp reduce_scatter 16777216>4194304", 2}}));
  // Ranks of cp saw other tokens: gradients are reduced over dp and cp together.
  EXPECT_THAT(after(p), ElementsAre(HasSubstr("cp all_reduce")));
}

// "send to 1: 32", as rank 0 issues them.
std::vector<std::string> passed(const Program& p, Phase phase) {
  std::vector<std::string> lines;
  for (const Event& e : events_of(p, Rank(0)))
    if (e.ring && e.phase == phase && e.op == Collective::send)
      lines.push_back(fmt::format("to {}: {}", e.peer->value, e.volume.input_bytes));
  return lines;
}

// Transformer Engine, AttnFuncWithCPAndKVP2P: K and V in one buffer, 2 x 2048 x 8 x 128 x 2 B.
TEST(ContextParallel, IsARingUnlessToldOtherwise) {
  Plan plan = plan_of(1, 8192, false);
  plan.cp = 4;
  Architecture a = dense(1, 4096, 32);
  a.kv_heads = 8;
  const Program p = predict(a, plan);
  EXPECT_THAT(passed(p, Phase::forward),
              ElementsAre("to 1: 8388608", "to 1: 8388608", "to 1: 8388608"));
  EXPECT_THAT(passed(p, Phase::backward),
              ElementsAre("to 3: 8388608", "to 3: 16777216", "to 3: 16777216", "to 3: 8388608"));
  EXPECT_THAT(after(p), ElementsAre(HasSubstr("cp all_reduce")));
}

TEST(ContextParallel, ComputesTheRingAgainUnderSelectiveRecomputation) {
  Plan plan = plan_of(1, 8192, false);
  plan.cp = 4;
  plan.recompute = Recompute::selective;
  const Program p = predict(dense(1, 4096, 32), plan);
  EXPECT_EQ(passed(p, Phase::recompute), passed(p, Phase::forward));
  EXPECT_EQ(passed(p, Phase::recompute).size(), 3u);
}

// DeepSeek-V3: keys of 128 + 64, values of 128, for 128 heads over tp 8.
TEST(ContextParallel, ARingOfLatentAttentionHasWiderKeysThanValues) {
  Architecture a = dense(1, 7168, 128);
  a.latent = LatentAttention{1536, 512, 64, 128, 128};
  Plan plan = plan_of(8, 4096, true);
  plan.cp = 2;
  const Program p = predict(a, plan);
  const std::string part = std::to_string(2048 * 16 * (192 + 128) * 2);
  EXPECT_THAT(passed(p, Phase::forward), ElementsAre("to 8: " + part));
  EXPECT_THAT(passed(p, Phase::backward), ElementsAre("to 8: " + part, "to 8: " + part));
}

// Its owner is the attention, not the pipeline; two messages of two ranks are one kernel.
TEST(ContextParallel, LaunchesARingOfTwoAtOnce) {
  Plan plan = plan_of(1, 64, false);
  plan.cp = 2;
  const auto kernels = [&](const std::vector<std::string>& changes) {
    return class_of(predict(dense(1, 64, 4), plan, changes), Rank(1))
        .kernels[kernel_index(Collective::send)];
  };
  EXPECT_EQ(kernels({}), 3u);
  EXPECT_EQ(kernels({"ring_launch=single"}), 6u);
  EXPECT_EQ(of(predict(dense(1, 64, 4), plan), Phase::forward, "layers.0.attn").size(), 2u);
}

TEST(ContextParallel, CutsASequenceIntoTwoChunksForEachRank) {
  Plan plan = plan_of(1, 4 * 5, false);
  plan.cp = 4;
  EXPECT_THAT(refusals(dense(1, 64, 4), plan), ElementsAre(HasSubstr("16 or 24 (multiples of 8)")));
}

TEST(ContextParallel, HasSinksWithExchangedHeadsOnly) {
  Plan plan = plan_of(1, 64, false);
  plan.cp = 2;
  Architecture a = dense(1, 64, 4);
  a.sinks = true;
  EXPECT_THAT(refusals(a, plan), ElementsAre(HasSubstr("context_parallel=a2a")));
  EXPECT_THAT(refusals(a, plan, {"context_parallel=all_gather"}),
              ElementsAre(HasSubstr("context_parallel=a2a only")));
  EXPECT_THAT(refusals(a, plan, profile_of("torchtitan")),
              ElementsAre(HasSubstr("--cp: attention sinks in a ring")));
  EXPECT_NO_THROW(predict(a, plan, {"context_parallel=a2a"}));
}

// Transformer Engine, AttnFuncWithCPAndQKVOA2A: 64 / 8 heads and 8 / 8 of keys and values on a rank
// of tp, of 1024 tokens, 64 wide, 2 B each, over 2 ranks.
TEST(ContextParallel, ExchangesTheHeadsOfARankOfTensorParallelism) {
  Plan plan = plan_of(4, 2048, true);
  plan.cp = 2;
  Architecture a = dense(1, 4096, 64);
  a.kv_heads = 8;
  const Program p = predict(a, plan, {"context_parallel=a2a"});
  const Counts exchanged{{"cp all_to_all 2097152>2097152", 2}, {"cp all_to_all 262144>262144", 2}};
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    Counts cp;
    for (const auto& [line, n] : of(p, phase, "layers.0.attn"))
      if (line.rfind("cp ", 0) == 0) cp[line] = n;
    EXPECT_EQ(cp, exchanged);
  }
}

// flash_attn_a2a_communicate: queries, keys, values, in both directions; and once more where the core
// is computed again.
TEST(ContextParallel, ExchangesQueriesFirstInBothDirections) {
  Plan plan = plan_of(4, 2048, true);
  plan.cp = 2;
  plan.recompute = Recompute::selective;
  Architecture a = dense(1, 4096, 64);
  a.kv_heads = 8;
  const Program p = predict(a, plan, {"context_parallel=a2a"});
  const auto sizes = [&](const Segment& segment, Phase phase) {
    std::vector<Count> all;
    for (const Segment::Item& item : segment.items)
      if (item.event.op == Collective::all_to_all && item.event.phase == phase)
        all.push_back(item.event.volume.input_bytes);
    return all;
  };
  const Count q = 2097152, kv = 262144;
  EXPECT_THAT(sizes(p.stages[0].forward, Phase::forward), ElementsAre(q, kv, kv, q));
  EXPECT_THAT(sizes(p.stages[0].backward, Phase::recompute), ElementsAre(q, kv, kv, q));
  EXPECT_THAT(sizes(p.stages[0].backward, Phase::backward), ElementsAre(q, q, kv, kv));
}

TEST(ContextParallel, NeedsAShareOfTheLocalHeadsForEveryRank) {
  Plan plan = plan_of(4, 64, true);
  plan.cp = 4;
  Architecture a = dense(1, 64, 16);
  predict(a, plan, {"context_parallel=a2a"});
  a.kv_heads = 8;
  EXPECT_THAT(refusals(a, plan, {"context_parallel=a2a"}),
              ElementsAre(HasSubstr("expected 1 or 2")));
}

// A large world: peers are told by their offset, and even and odd ranks behave alike.
TEST(ContextParallel, CountsALargeRingOnce) {
  Plan plan = plan_of(8, 8192, true);
  plan.cp = 4;
  plan.dp = 8;
  const Program p = predict(dense(1, 4096, 32), plan);
  const auto classes = merge_alike(rank_classes(p), p.mesh);
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_EQ(classes[0].operations[static_cast<size_t>(Collective::send)], 7u);
  EXPECT_EQ(classes[0].kernels[kernel_index(Collective::send)], 14u);
  const auto events = events_of(p, Rank(8));  // the second of its ring
  const auto first =
      std::find_if(events.begin(), events.end(), [](const Event& e) { return e.ring; });
  EXPECT_EQ(first->op, Collective::recv);
  EXPECT_EQ(first->peer_offset, -1);
}

// Two settings may ask for a second gather; each is named where it does.
TEST(ContextParallel, TheCauseOfASecondGatherNamesItsSetting) {
  Plan plan = plan_of(2, 16, true);
  plan.cp = 2;
  const Program p = predict(dense(1, 64, 4), plan, {"context_parallel=all_gather"});
  std::map<std::string, std::string> why;  // by group
  for_each_kept_event(p, [&](const Event& e) {
    const Cause& cause = p.causes.at(e.cause);
    if (cause.kind == CauseKind::regather) why[p.families.at(e.family).name] = cause.why;
  });
  EXPECT_THAT(why["cp"], HasSubstr("(context_parallel=all_gather)"));
  EXPECT_THAT(why["tp"], HasSubstr("(sequence_residual=regather)"));
}

}  // namespace
}  // namespace s2t
