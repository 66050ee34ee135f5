// Mistakes that are known of other tools, each pinned.
#include <gmock/gmock.h>

#include "analyzer/program/tally.h"
#include "tests/analyzer/io/predicted.h"

namespace s2t {
namespace {

using testing::ElementsAre;

TEST(KnownMistakes, GradientsAreReducedOncePerStepNotPerMicrobatch) {
  Plan plan = plan_of(1, 16, false);
  plan.dp = 2;
  plan.global_batch = 32;
  const Program p = predict(dense(2, 64, 4), plan);
  Count reductions = 0;
  for (const SummaryRow& row : summarize(p))
    if (row.phase == Phase::grad_sync) reductions += row.calls;
  EXPECT_EQ(p.microbatches, 16);
  EXPECT_EQ(reductions, 1u);
}

TEST(KnownMistakes, ATiedTableIsReducedOncePerStepAndDividedByTp) {
  Plan plan = plan_of(4, 16, false);
  plan.pp = 2;
  plan.global_batch = 8;
  EXPECT_THAT(after(predict(gpt(2, 64, 4), plan)),
              ElementsAre(fmt::format("embd all_reduce {0}>{0}", 51200 / 4 * 64 * 4)));
}

TEST(KnownMistakes, TheEmbeddingHasABackwardAndTheHeadBothWays) {
  const Program p = predict(dense(1, 64, 4), plan_of(2, 16, true));
  EXPECT_EQ(of(p, Phase::backward, "embed").size(), 1u);
  EXPECT_EQ(of(p, Phase::forward, "head").size(), 1u);
  EXPECT_EQ(of(p, Phase::backward, "head").size(), 2u);
}

TEST(KnownMistakes, ExpertsHaveABackward) {
  Plan plan = plan_of(1, 16, false);
  plan.dp = plan.ep = 2;
  const Program p = predict(mixtral(1), plan);
  EXPECT_EQ(of(p, Phase::backward, "layers.0.moe"), of(p, Phase::forward, "layers.0.moe"));
  EXPECT_NE(of(p, Phase::backward, "layers.0.moe"), Counts{});
}

TEST(KnownMistakes, ExpertsMaySpreadOverRanksWithoutTensorParallelism) {
  Plan plan = plan_of(1, 16, true);
  plan.dp = plan.ep = 4;
  const Program p = predict(mixtral(1), plan);
  EXPECT_EQ(p.mesh.find("tp"), nullptr);
  EXPECT_EQ(of(p, Phase::forward, "layers.0.attn"), Counts{});
  EXPECT_EQ(of(p, Phase::forward, "layers.0.moe").size(), 2u);
}

TEST(KnownMistakes, NothingMovesZeroBytesOrInAGroupOfOne) {
  Plan plan = plan_of(1, 16, false);
  EXPECT_EQ(summarize(predict(dense(2, 64, 4), plan)).size(), 0u);
  plan.pp = plan.dp = 2;
  for (const SummaryRow& row : summarize(predict(gpt(2, 64, 4), plan)))
    EXPECT_GT(row.input_bytes + row.output_bytes, 0u);
}

TEST(KnownMistakes, BytesAreElementsTimesTheirSize) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    Plan plan = plan_of(2, 16, false);
    plan.dtype = dtype;
    const Program p = predict(dense(1, 64, 4), plan);
    const Event& e = p.stages.at(0).forward.items.back().event;
    EXPECT_EQ(e.volume.input_bytes, e.volume.elements * size_of(e.dtype));
    EXPECT_EQ(of(p, Phase::forward, "layers.0.mlp"),
              (Counts{{fmt::format("tp all_reduce {0}>{0}", 16 * 64 * size_of(dtype)), 1}}));
  }
}

}  // namespace
}  // namespace s2t
