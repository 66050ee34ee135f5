// Forms of parallelism that are one sharded leaf or one pin away from each other, and the ways to
// synchronise gradients. Sources of the counts: TransformerEngine context_parallel.py (all-gather
// attention), DeepSpeed sequence/layer.py (Ulysses), Megatron core cross_entropy.py and
// finalize_model_grads.py, torch fully_shard and DDP.
#include <gmock/gmock.h>

#include "tests/textbook/step.h"

namespace s2t {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kernels = std::map<std::string, int>;

const Rank r0(0);

std::vector<std::string> of(const char* model) {
  return lines_of(analyze_model(model), r0);
}

std::vector<std::string> of(const char* model, Phase phase) {
  return lines_of(analyze_model(model), r0, phase);
}

TEST(ParallelForms, AnExpertsPartialResultIsReducedAfterItsTokensAreBack) {
  EXPECT_THAT(of("moe_expert_tp", Phase::forward),
              ElementsAre("forward all_to_all ep rows 1024>1024 [8,8]>[8,8]",
                          "forward all_to_all ep out 1024>1024 [8,8]>[8,8]",
                          "forward all_reduce etp y 512>512"));
}

// Megatron's other dispatcher (core/transformer/moe/token_dispatcher.py): tokens and their weights go
// to all ranks of the experts.
TEST(ParallelForms, TokensMayBeGatheredInsteadOfRowsExchanged) {
  EXPECT_THAT(of("moe_gathered"),
              ElementsAre("forward all_gather ep route 128>512", "forward all_gather ep x 512>2048",
                          "forward reduce_scatter ep terms 2048>512",
                          "backward all_gather ep terms 512>2048",
                          "backward reduce_scatter ep x 2048>512"));
}

TEST(ParallelForms, ContextParallelGathersKeysAndValuesTwice) {
  EXPECT_THAT(
      of("cp_all_gather", Phase::forward),
      ElementsAre("forward all_gather cp kh 256>1024", "forward all_gather cp vh 256>1024"));
  EXPECT_THAT(
      of("cp_all_gather", Phase::backward),
      ElementsAre("backward all_gather cp kh 256>1024", "backward all_gather cp vh 256>1024",
                  "backward reduce_scatter cp vh 1024>256",
                  "backward reduce_scatter cp kh 1024>256"));
}

// Keys of 128 and values of 192 elements on each rank, in one buffer: 1280 B.
TEST(ParallelForms, ARingPassesKeysAndValuesAndTheirGradientsOn) {
  EXPECT_THAT(of("cp_ring", Phase::forward),
              ElementsAre("forward send cp kh to 1 1280", "forward recv cp kh from 3 1280",
                          "forward send cp kh to 1 1280", "forward recv cp kh from 3 1280",
                          "forward send cp kh to 1 1280", "forward recv cp kh from 3 1280"));
  EXPECT_THAT(of("cp_ring", Phase::backward),
              ElementsAre("backward send cp kh to 3 1280", "backward recv cp kh from 1 1280",
                          "backward send cp kh to 3 2560", "backward recv cp kh from 1 2560",
                          "backward send cp kh to 3 2560", "backward recv cp kh from 1 2560",
                          "backward send cp kh to 3 1280", "backward recv cp kh from 1 1280"));
}

TEST(ParallelForms, OddRanksOfARingReceiveFirst) {
  const auto lines = lines_of(analyze_model("cp_ring"), Rank(1), Phase::forward);
  EXPECT_EQ(lines[0], "forward recv cp kh from 0 1280");
  EXPECT_EQ(lines[1], "forward send cp kh to 2 1280");
}

// 3 + 4 exchanges, each a send and a receive of their own.
TEST(ParallelForms, ARingOfFourLaunchesEveryMessageByItself) {
  EXPECT_EQ(kernels_of(analyze_model("cp_ring"), Rank(2)),
            (Kernels{{"SendRecv", 14}, {"AllReduce", 4}}));
}

TEST(ParallelForms, UlyssesExchangesSequenceAndHeadsFourTimesEachWay) {
  const Program p = analyze_model("ulysses");
  EXPECT_EQ(counts_of(p, r0), (Kernels{{"forward all_to_all", 4},
                                       {"backward all_to_all", 4},
                                       {"grad_sync all_reduce", 4}}));
}

// Queries are split over all of tp, keys and values only over kv: replicas each owe a term.
TEST(ParallelForms, ReplicatedKeyValueHeadsSumTheirGradients) {
  const Program p = analyze_model("gqa_kv_replicas");
  EXPECT_THAT(group_lines(p), ElementsAre("tp: 0 1 2 3", "kvrep: 0 1 | 2 3", "kv: 0 2 | 1 3"));
  EXPECT_THAT(
      lines_of(p, r0),
      ElementsAre("forward all_reduce tp y 2048>2048", "backward all_reduce kvrep vh 256>256",
                  "backward all_reduce kvrep kh 256>256", "backward all_reduce kv x 2048>2048",
                  "backward all_reduce tp x 2048>2048"));
}

TEST(ParallelForms, ASplitVocabularyReducesOnceForTheEmbeddingAndThreeTimesForTheLoss) {
  EXPECT_THAT(
      of("vocab_parallel"),
      ElementsAre("forward all_reduce tp e 1024>1024", "forward all_reduce tp loss.max 64>64",
                  "forward all_reduce tp loss.sum_exp 64>64",
                  "forward all_reduce tp loss.target 64>64", "backward all_reduce tp e 1024>1024"));
}

TEST(ParallelForms, AnUnevenVocabularyCountsWholeRows) {
  EXPECT_THAT(of("uneven_vocab"), ElementsAre("forward all_reduce tp e 1024>1024"));
}

TEST(ParallelForms, NormsUnderSequenceParallelismAreSummedOverTpInOneCall) {
  const auto sync = of("llama_layer_sp_dp", Phase::grad_sync);
  ASSERT_EQ(sync.size(), 13u);                                   // twelve parameters over dp
  EXPECT_EQ(sync.back(), "grad_sync all_reduce tp g1 192>192");  // three norms of 64 B
  EXPECT_EQ(of("llama_layer_tp_dp", Phase::grad_sync).size(), 12u);
}

TEST(ParallelForms, DenseAndExpertParametersUseTheirOwnGroups) {
  const Program p = analyze_model("moe_folded_ep");
  EXPECT_THAT(group_lines(p), ElementsAre("tp: 0 1 | 2 3 | 4 5 | 6 7", "dp: 0 2 4 6 | 1 3 5 7",
                                          "ep: 0 1 2 3 | 4 5 6 7", "edp: 0 4 | 1 5 | 2 6 | 3 7"));
  EXPECT_THAT(
      lines_of(p, r0, Phase::grad_sync),
      ElementsAre("grad_sync all_reduce dp w_in 1024>1024", "grad_sync all_reduce edp w 1024>1024",
                  "grad_sync all_reduce tp w_in 1024>1024"));
}

TEST(ParallelForms, ATiedTableIsSummedBetweenItsStagesOncePerStep) {
  EXPECT_THAT(of("tied_embedding", Phase::grad_sync),
              ElementsAre("grad_sync all_reduce embd table 2048>2048"));
}

// The next unit is gathered before the gradients of this one are reduced.
TEST(GradientSync, FsdpGathersBeforeUseInBothDirections) {
  EXPECT_THAT(
      of("fsdp_mlp"),
      ElementsAre("forward all_gather dp w1 512>2048", "forward all_gather dp w2 512>2048",
                  "backward all_gather dp w2 512>2048", "backward all_gather dp w1 512>2048",
                  "grad_sync reduce_scatter dp w2 2048>512",
                  "grad_sync reduce_scatter dp w1 2048>512"));
}

TEST(GradientSync, ZeroScattersGradientsAndGathersParameters) {
  EXPECT_THAT(of("zero1_mlp"), ElementsAre("grad_sync reduce_scatter dp w2 4096>1024",
                                           "step all_gather dp w2 1024>4096"));
  EXPECT_THAT(of("zero2_mlp"), ElementsAre("grad_sync reduce_scatter dp w2 4096>1024 #0",
                                           "grad_sync reduce_scatter dp w2 4096>1024 #1",
                                           "step all_gather dp w2 1024>4096"));
}

TEST(GradientSync, BucketsCloseInTheOrderInWhichGradientsAreReady) {
  EXPECT_THAT(of("ddp_buckets"), ElementsAre("grad_sync all_reduce dp w2 2048>2048",
                                             "grad_sync all_reduce dp w1 2048>2048"));
}

TEST(GradientSync, Bfloat16GradientsMayBeSummedInFloat32) {
  EXPECT_THAT(of("bf16_mlp"),
              ElementsAre("forward all_reduce tp y 256>256", "grad_sync all_reduce dp w1 1024>1024",
                          "grad_sync all_reduce dp w2 1024>1024"));
}

}  // namespace
}  // namespace s2t
