// What frameworks other than Megatron issue for published models: torchtitan, PyTorch DDP,
// DeepSpeed. Sources: PyTorch 2.6 (torch.distributed.fsdp, reducer.cpp), torchtitan
// models/llama3, DeepSpeed 0.14 runtime/zero; Rajbhandari et al. 2020 (arXiv 1910.02054); Fedus et
// al. 2021 (arXiv 2101.03961).
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "analyzer/backward/buckets.h"
#include "tests/analyzer/io/framework_steps.h"

namespace s2t {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using namespace framework_steps;

// --- torchtitan
// ------------------------------------------------------------------------------------

// Two layers, tp 2, dp 2: everything of a step of one rank. Activations are 16 tokens of 8 in bf16:
// 256 B whole, 128 B per tp rank. Unit sizes are those of one tp rank.
TEST(Torchtitan, StepIsThatOfPyTorchCallByCall) {
  const Architecture a = llama(2, 8, 2, 32);
  const Program p = predict(a, split_of(2, 2, 16), profile_of("torchtitan"));
  const Count table = 32 * 8 / 2, block = (4 * 8 * 8 + 3 * 8 * 32) / 2 + 2 * 8,
              head = 8 + 32 * 8 / 2;
  const auto unit = [](Count n) { return fmt::format("dp all_gather {}>{}", n, 2 * n); };
  const auto reduced = [](Count n) { return fmt::format("dp reduce_scatter {}>{}", 4 * n, 2 * n); };
  const std::string gather = "tp all_gather 128>256", scatter = "tp reduce_scatter 256>128",
                    norm = "tp all_reduce 16>16", loss = "tp all_reduce 64>64";
  const Lines expected{
      // forward
      unit(table),
      scatter,  // embedding
      unit(block),
      gather,
      scatter,
      gather,
      scatter,  // first block
      unit(block),
      gather,
      scatter,
      gather,
      scatter,  // second block
      unit(head),
      gather,
      loss,
      loss,
      loss,  // norm, head, loss
      // backward: the next unit is gathered as one begins; the last one was kept
      unit(block),
      scatter,
      norm,
      reduced(head),  // head
      unit(block),
      gather,
      scatter,
      gather,
      scatter,
      norm,
      norm,
      reduced(block),
      unit(table),
      gather,
      scatter,
      gather,
      scatter,
      norm,
      norm,
      reduced(block),
      gather,
      reduced(table),
      // the norm of all gradients, one mesh axis at a time
      "dp all_reduce 4>4",
      "tp all_reduce 4>4",
  };
  EXPECT_THAT(step(p, 0), ElementsAreArray(expected));
  EXPECT_THAT(step(p, 3), ElementsAreArray(expected));
}

TEST(Torchtitan, LayerHasFourGathersAndFourScattersOverTp) {
  const auto over_tp = [](int64_t layers) {
    std::map<std::string, int> counts;
    for (const std::string& l : step(predict(llama(layers, 8192, 64, 32000), split_of(8, 2, 4096),
                                             profile_of("torchtitan")),
                                     0))
      ++counts[l];
    return counts;
  };
  const auto one = over_tp(1), two = over_tp(2);
  const char* gather = "tp all_gather 8388608>67108864";
  const char* scatter = "tp reduce_scatter 67108864>8388608";
  EXPECT_EQ(two.at(gather) - one.at(gather), 4);
  EXPECT_EQ(two.at(scatter) - one.at(scatter), 4);
}

TEST(Torchtitan, ReshardingIsASwitch) {
  const Architecture a = llama(3, 8, 2, 32);
  const auto gathers = [&](const char* policy, Phase phase) {
    const Profile profile =
        profile_of("torchtitan", {std::string("reshard_after_forward=") + policy});
    return step(predict(a, split_of(1, 2, 16), profile), 0, phase).size();
  };
  EXPECT_EQ(gathers("default", Phase::forward), 5u);  // embedding, three blocks, norm with head
  EXPECT_EQ(gathers("default", Phase::backward), 4u);
  EXPECT_EQ(gathers("always", Phase::backward), 5u);
  EXPECT_EQ(gathers("never", Phase::backward), 0u);
  EXPECT_EQ(gathers("never", Phase::grad_sync), 5u);
}

// Parts of 3 rows on 2 ranks are padded to 2.
TEST(Torchtitan, EveryMicrobatchGathersAndReduces) {
  Plan plan = split_of(1, 2, 16);
  plan.global_batch = 6;
  const Program p = predict(llama(1, 8, 2, 33), plan, profile_of("torchtitan"));
  EXPECT_EQ(step(p, 0, Phase::grad_sync).size(), 9u);
  EXPECT_EQ(step(p, 0, Phase::forward).size(), 9u);
  EXPECT_EQ(step(p, 0, Phase::forward).at(0), "dp all_gather 272>544");  // 17 of 33 rows of 8
}

// Gathered once, kept over all microbatches, reduced behind the last backward in forward order.
TEST(Torchtitan, PipelineStageGathersOncePerStep) {
  Plan plan = split_of(1, 2, 16);
  plan.pp = 2;
  plan.global_batch = 8;
  const Program p = predict(llama(2, 8, 2, 32), plan, profile_of("torchtitan"));
  const Count table = 32 * 8, block = 4 * 8 * 8 + 3 * 8 * 32 + 2 * 8;
  EXPECT_THAT(step(p, 0, Phase::grad_sync),
              ElementsAre(fmt::format("dp reduce_scatter {}>{}", 4 * table, 2 * table),
                          fmt::format("dp reduce_scatter {}>{}", 4 * block, 2 * block)));
  Lines gathers = step(p, 0, Phase::forward);
  std::erase_if(gathers, [](const std::string& l) { return l[0] == 'p'; });
  EXPECT_THAT(gathers, ElementsAre(fmt::format("dp all_gather {}>{}", table, 2 * table),
                                   fmt::format("dp all_gather {}>{}", block, 2 * block)));
}

// Ten layers' worth of weight on four stages are 3 3 2 2, without embedding and head 2 3 2 1.
TEST(Torchtitan, EmbeddingAndHeadCountAsALayerEach) {
  Plan plan = split_of(1, 1, 16);
  plan.pp = 4;
  plan.global_batch = 4;
  const Program p = predict(llama(8, 8, 2, 32), plan, profile_of("torchtitan"));
  std::map<int, std::set<std::string>> layers;
  Plan tp = plan;
  tp.tp = 2;
  const Program q = predict(llama(8, 8, 2, 32), tp, profile_of("torchtitan"));
  for (size_t s = 0; s < q.stages.size(); ++s)
    for (const Segment::Item& item : q.stages[s].forward.items)
      if (item.event.module.rfind("layers.", 0) == 0)
        layers[static_cast<int>(s)].insert(item.event.module.substr(0, 8));
  EXPECT_EQ(layers[0].size(), 2u);
  EXPECT_EQ(layers[1].size(), 3u);
  EXPECT_EQ(layers[2].size(), 2u);
  EXPECT_EQ(layers[3].size(), 1u);
  EXPECT_EQ(p.stages.size(), 4u);
}

TEST(Torchtitan, TheLastStageMayHoldTheHeadAlone) {
  Plan plan = split_of(1, 2, 16);
  plan.pp = 4;
  plan.global_batch = 8;
  const Program p = predict(llama(4, 8, 2, 32), plan, profile_of("torchtitan"));
  std::vector<std::set<std::string>> modules;
  for (const Stage& stage : p.stages) {
    modules.emplace_back();
    for (const Segment::Item& item : stage.forward.items)
      modules.back().insert(item.event.members[0].substr(0, 8));
  }
  EXPECT_THAT(modules,
              ElementsAre(std::set<std::string>{"embed.we", "layers.0"},
                          std::set<std::string>{"layers.1", "layers.2"},
                          std::set<std::string>{"layers.3"}, std::set<std::string>{"head.nor"}));
}

// Nothing converts to bf16 then, and clipping throws away what it adds up of norm gradients.
TEST(Torchtitan, WithoutFsdpEverythingIsFloat32AndNormGradientsAreReducedTwice) {
  const Program p = predict(llama(1, 8, 2, 32), split_of(2, 1, 16), profile_of("torchtitan"));
  EXPECT_THAT(step(p, 0, Phase::forward), Contains("tp all_gather 256>512"));
  Lines after;
  for (const Event& e : p.after) after.push_back(line(p, e));
  const std::string norm = "tp all_reduce 32>32";
  EXPECT_THAT(after, ElementsAre(norm, norm, norm, "tp all_reduce 4>4", norm, norm, norm));
}

TEST(Torchtitan, CheckpointedBlocksRepeatTheirGathersOrEverything) {
  Plan plan = split_of(2, 2, 16);
  const std::string gather = "tp all_gather 128>256", scatter = "tp reduce_scatter 256>128";
  plan.recompute = Recompute::full;
  EXPECT_THAT(
      step(predict(llama(1, 8, 2, 32), plan, profile_of("torchtitan")), 0, Phase::recompute),
      ElementsAre(gather, scatter, gather, scatter));
  plan.recompute = Recompute::selective;
  EXPECT_THAT(
      step(predict(llama(1, 8, 2, 32), plan, profile_of("torchtitan")), 0, Phase::recompute),
      ElementsAre(gather, gather));
}

TEST(Torchtitan, WithoutLossParallelTheLogitsAreGathered) {
  const Program p = predict(llama(1, 8, 2, 32), split_of(2, 2, 16),
                            profile_of("torchtitan", {"loss_parallel=off"}));
  const Lines forward = step(p, 0, Phase::forward);
  EXPECT_EQ(forward.back(), "tp all_gather 512>1024");  // 16 tokens, 32 words
}

TEST(Torchtitan, ExpertsAreAUnitOfTheirOwnUnderExpertParallelism) {
  Plan plan = split_of(1, 4, 16);
  plan.ep = 2;
  const Program p = predict(mixtral(1, 8, 2, 2), plan, profile_of("torchtitan"));
  const Count experts = Count{4} * 3 * 8 * 16 / 2;  // half of four experts
  EXPECT_THAT(step(p, 0, Phase::forward),
              Contains(fmt::format("edp all_gather {}>{}", 2 * experts, 4 * experts)));
  EXPECT_THAT(step(p, 0, Phase::grad_sync),
              Contains(fmt::format("edp reduce_scatter {}>{}", 8 * experts, 4 * experts)));
}

TEST(Torchtitan, RefusesWhatItDoesNotHave) {
  const Profile titan = profile_of("torchtitan");
  EXPECT_THAT(refusals(gpt2(2, 8, 2, 32), split_of(1, 2, 16), titan),
              UnorderedElementsAre(HasSubstr("positions that are not rotary"),
                                   HasSubstr("norms that are not RMS")));
  EXPECT_THAT(refusals(llama(2, 8, 2, 33), split_of(2, 2, 16), titan),
              ElementsAre(HasSubstr("a vocabulary of 33 over 2 ranks under torchtitan")));
  EXPECT_THAT(refusals(mixtral(2, 8, 2, 2), split_of(2, 2, 16), titan),
              ElementsAre(HasSubstr("experts with tensor parallelism under torchtitan")));
  Plan plan = split_of(1, 1, 16);
  plan.pp = 2;
  EXPECT_THAT(refusals(llama(2, 8, 2, 32), plan, titan),
              ElementsAre(HasSubstr("1 microbatches on 2 pipeline ranks under torchtitan")));
  plan = split_of(1, 2, 16);
  plan.zero = 1;
  EXPECT_THAT(refusals(llama(2, 8, 2, 32), plan, titan),
              ElementsAre(HasSubstr("FSDP shards parameters, gradients and optimizer states")));
}

// --- DDP
// -------------------------------------------------------------------------------------------

// Float32 gradients of a tied model: 1 MiB first, then 25 MiB, each closed by what reaches it.
TEST(Ddp, BucketsCloseWhenTheyReachTheirLimit) {
  Plan plan = split_of(1, 4, 16);
  plan.dtype = DType::f32;
  plan.global_batch = 8;
  const Architecture a = llama(4, 512, 8, 1000);
  const Program p = predict(a, plan, profile_of("ddp"));
  const Lines sync = step(p, 0, Phase::grad_sync);
  Count sum = 0;
  for (const Event& e : events_of(p, Rank(0))) sum += e.volume.input_bytes;
  EXPECT_EQ(sum, 4 * parameter_count(a));
  // The head's 1000 x 512 alone exceed 1 MiB; then 25 MiB and what the last gradient adds.
  EXPECT_EQ(sync.at(0), "dp all_reduce 2048000>2048000");
  EXPECT_EQ(sync.at(1), "dp all_reduce 29366272>29366272");
  EXPECT_EQ(sync.size(), 4u);
  EXPECT_THAT(step(predict(a, plan, profile_of("ddp", {"ddp_step=first"})), 0),
              ElementsAre(fmt::format("dp all_reduce {0}>{0}", 4 * parameter_count(a))));
}

TEST(Ddp, AStatedCapIsTheLimitOfEveryBucket) {
  Plan plan = split_of(1, 2, 16);
  plan.dtype = DType::f32;
  const Architecture a = llama(1, 512, 8, 1024);
  EXPECT_EQ(step(predict(a, plan, profile_of("ddp", {"bucket_cap_mb=1000"})), 0).size(), 1u);
  EXPECT_GT(step(predict(a, plan, profile_of("ddp", {"bucket_cap_mb=1"})), 0).size(), 8u);
}

TEST(Ddp, ReducesEachMicrobatchWithoutNoSync) {
  Plan plan = split_of(1, 2, 16);
  plan.global_batch = 6;
  const Architecture a = gpt2(1, 64, 2, 128);
  EXPECT_EQ(step(predict(a, plan, profile_of("ddp")), 0).size(), 1u);
  EXPECT_EQ(step(predict(a, plan, profile_of("ddp", {"every=microbatch"})), 0).size(), 3u);
}

TEST(Ddp, RefusesOtherParallelism) {
  Plan plan = split_of(2, 2, 16);
  plan.pp = 2;
  plan.sp = true;
  EXPECT_THAT(refusals(llama(2, 8, 2, 32), plan, profile_of("ddp")),
              UnorderedElementsAre(HasSubstr("tensor parallelism under ddp; expected 1"),
                                   HasSubstr("a pipeline under ddp; expected 1")));
  plan = split_of(1, 2, 16);
  plan.zero = 3;
  EXPECT_THAT(refusals(llama(2, 8, 2, 32), plan, profile_of("ddp")),
              ElementsAre(HasSubstr("deepspeed has ZeRO 1 to 3")));
}

// --- DeepSpeed
// -------------------------------------------------------------------------------------

Program zero(int64_t stage, const Architecture& a, int64_t dp, const Lines& changes = {},
             int64_t microbatches = 1) {
  Plan plan = split_of(1, dp, 16);
  plan.zero = stage;
  plan.global_batch = dp * microbatches;
  return predict(a, plan, profile_of("deepspeed", changes));
}

TEST(DeepSpeed, StagesOneAndTwoAllReduceAndGatherTheParametersOnce) {
  const Architecture a = llama(2, 64, 2, 128);
  const Count n = parameter_count(a), padded = (n + 7) / 8 * 8;
  const std::string gradients = fmt::format("dp all_reduce {0}>{0}", 2 * n);
  const std::string updates = fmt::format("dp all_gather {}>{}", padded / 2, 2 * padded);
  const std::string norm = "dp all_reduce 4>4";
  EXPECT_THAT(step(zero(1, a, 4, {}, 2), 0), ElementsAre(gradients, norm, updates));
  EXPECT_THAT(step(zero(2, a, 4, {}, 2), 0), ElementsAre(gradients, gradients, norm, updates));
}

TEST(DeepSpeed, BucketsCloseBeforeTheyExceedTheirLimit) {
  const Architecture a = llama(1, 64, 2, 100);  // matrices of 6400, 4096 (four), 16384 (three)
  const Lines sync = step(zero(1, a, 2, {"reduce_bucket_size=20000"}), 0, Phase::grad_sync);
  const auto ar = [](Count n) { return fmt::format("dp all_reduce {0}>{0}", 2 * n); };
  EXPECT_THAT(sync, ElementsAre(ar(6400 + 64 + 3 * 4096), ar(4096 + 64), ar(16384), ar(16384),
                                ar(16384 + 64), ar(6400)));
}

// Forward and backward gather each module; norms are small and stay.
// 1,560 parameters, padded to a multiple of 2 x 32.
TEST(DeepSpeed, Bf16WithoutZeroIsOneFlatGradientAndOneGather) {
  const Program p = predict(llama(1, 8, 2, 32), split_of(1, 32, 16), profile_of("deepspeed"));
  Lines after;
  for (const Event& e : p.after) after.push_back(line(p, e));
  EXPECT_THAT(after, ElementsAre("dp all_reduce 3200>3200", "dp all_gather 100>3200"));
}

// Three matrices of 256 elements lie behind each other; parts of ranks end within them.
TEST(DeepSpeed, AGradientBeyondTheBucketGoesOutWhereTheRanksPartsMeet) {
  Plan plan = split_of(1, 4, 16);
  plan.zero = 1;
  const Program p =
      predict(llama(1, 8, 2, 32), plan, profile_of("deepspeed", {"reduce_bucket_size=200"}));
  std::map<std::string, std::vector<Count>> sent;
  for (const Event& e : p.after)
    if (e.op == Collective::all_reduce && e.members.size() == 1)
      sent[e.tensor].push_back(e.volume.input_bytes);
  int cut = 0;
  for (const auto& [tensor, bytes] : sent) {
    if (bytes.size() < 2) continue;
    EXPECT_EQ(bytes.size(), 2u);
    EXPECT_GT(bytes[0], 400u);  // more than 200 elements went together
    EXPECT_EQ(bytes[0] + bytes[1], 512u);
    ++cut;
  }
  EXPECT_GT(cut, 0);
}

TEST(DeepSpeed, ScalarsOfAStepAndThePipelinesLoss) {
  Plan plan = split_of(1, 2, 16);
  plan.zero = 1;
  plan.pp = 2;
  plan.dtype = DType::f16;
  plan.global_batch = 4;
  const Program p = predict(llama(2, 8, 2, 32), plan, profile_of("deepspeed"));
  Lines scalars;
  for (const Event& e : p.after)
    if (p.causes.at(e.cause).kind == CauseKind::framework)
      scalars.push_back(e.tensor + " " + line(p, e));
  EXPECT_THAT(scalars, ElementsAre("overflow.dp dp all_reduce 1>1", "overflow pp all_reduce 1>1",
                                   "grad_norm.dp dp all_reduce 4>4", "grad_norm pp all_reduce 4>4",
                                   "loss.logged dp all_reduce 4>4", "loss.told pp broadcast 8>8"));
}

TEST(DeepSpeed, ExpertsWithTensorParallelismAreRefusedWhateverSpSays) {
  Plan plan = split_of(2, 2, 16);
  plan.ep = 2;
  EXPECT_THAT(refusals(mixtral(2, 8, 2, 2), plan, profile_of("deepspeed")),
              ElementsAre(HasSubstr("experts with tensor parallelism under deepspeed")));
}

TEST(DeepSpeed, StageThreeGathersEachModuleBothWays) {
  const Architecture a = llama(1, 64, 2, 100);
  const Program p = zero(3, a, 3, {"param_persistence_threshold=64"});
  EXPECT_EQ(step(p, 0, Phase::forward).size(), 9u);  // table, q k v, proj, gate up down, head
  EXPECT_EQ(step(p, 0, Phase::backward).size(), 9u);
  EXPECT_EQ(step(p, 0, Phase::forward).at(1), "dp all_gather 2732>8196");  // ceil(4096 / 3)
  const Count parts = 2 * 2134 + 4 * 1366 + 3 * 5462 + 3 * 22;
  EXPECT_THAT(step(p, 0, Phase::grad_sync),
              ElementsAre(fmt::format("dp reduce_scatter {}>{}", 6 * parts, 2 * parts)));
  EXPECT_THAT(step(p, 0, Phase::step),
              ElementsAre("dp all_reduce 1>1", "dp all_reduce 4>4", "dp all_gather 44>132",
                          "dp all_gather 44>132", "dp all_gather 44>132"));  // three norms
}

TEST(DeepSpeed, PipelineRunsItsOwnSchedule) {
  Plan plan = split_of(1, 1, 16);
  plan.pp = 4;
  plan.global_batch = 8;
  const Program p = predict(llama(4, 64, 2, 128), plan, profile_of("deepspeed"));
  EXPECT_EQ(step(p, 0).size(), 18u);  // the norm and the loss, too
  EXPECT_EQ(step(p, 1).size(), 34u);
  EXPECT_FALSE(p.batched_p2p);
  plan.zero = 2;
  EXPECT_THAT(refusals(llama(4, 64, 2, 128), plan, profile_of("deepspeed")),
              ElementsAre(HasSubstr("ZeRO stage 2 with a pipeline under deepspeed")));
}

TEST(DeepSpeed, ATiedTableIsSummedBetweenStagesFirst) {
  Plan plan = split_of(1, 2, 16);
  plan.pp = 2;
  plan.global_batch = 4;
  const Program p = predict(gpt2(2, 64, 2, 128), plan, profile_of("deepspeed"));
  const Lines sync = step(p, 0, Phase::grad_sync);
  ASSERT_EQ(sync.size(), 2u);
  EXPECT_EQ(sync.at(0), "embd all_reduce 16384>16384");
  EXPECT_THAT(sync.at(1), HasSubstr("dp all_reduce"));
}

// A top-1 layer of 4096 tokens, 768 wide, capacity 1.25: 7,864,320 B each way (Switch, appendix A).
TEST(DeepSpeed, ExpertsExchangeTheirCapacity) {
  Plan plan = split_of(1, 8, 4096);
  plan.ep = 8;
  const Program p =
      predict(mixtral(1, 768, 12, 1), plan, profile_of("deepspeed", {"expert_capacity=1.25"}));
  const std::string exchange = "ep all_to_all 7864320>7864320";
  EXPECT_THAT(step(p, 0, Phase::forward), ElementsAre(exchange, exchange));
  EXPECT_THAT(step(p, 0, Phase::backward), ElementsAre(exchange, exchange));
}

// 10 tokens with two of 8 experts each are 3 rows for each expert; it gets 4 (min_capacity).
TEST(DeepSpeed, ExpertsHaveFourRowsAtLeast) {
  Plan plan = split_of(1, 8, 10);
  plan.ep = 8;
  const Program p = predict(mixtral(1, 32, 4, 2), plan, profile_of("deepspeed"));
  const std::string exchange = fmt::format("ep all_to_all {0}>{0}", 8 * 4 * 32 * 2);
  EXPECT_THAT(step(p, 0, Phase::forward), ElementsAre(exchange, exchange));
}

// --- published volumes
// -----------------------------------------------------------------------------

// A model of 7.5e9 parameters on 64 ranks (ZeRO paper, section 7): data parallelism and stages 1
// and 2 move 2 elements per parameter and rank, stage 3 moves 3; up to the factor (n - 1) / n.
TEST(Published, ZeroMovesTwoOrThreeElementsPerParameter) {
  const Architecture a = llama(36, 4096, 32, 51200);
  const auto elements_moved = [&](const char* name, int64_t stage, const Lines& changes) {
    Plan plan = split_of(1, 64, 2048);
    plan.zero = stage;
    plan.grad_dtype = DType::bf16;
    Lines all = changes;
    if (std::string(name) == "deepspeed") all.push_back("bf16_optimizer=none");
    const Program p = predict(a, plan, profile_of(name, all));
    const double wire = static_cast<double>(total(p, 0, &Volume::wire_bytes));
    return wire / 2 / static_cast<double>(parameter_count(a)) * 64 / 63;
  };
  EXPECT_NEAR(elements_moved("ddp", 0, {}), 2, 1e-4);
  EXPECT_NEAR(elements_moved("deepspeed", 0, {}), 2, 1e-4);
  EXPECT_NEAR(elements_moved("deepspeed", 1, {"zero_gradients=scattered"}), 2, 1e-4);
  EXPECT_NEAR(elements_moved("deepspeed", 2, {"zero_gradients=scattered"}), 2, 1e-4);
  EXPECT_NEAR(elements_moved("deepspeed", 3, {}), 3, 1e-4);
  EXPECT_NEAR(elements_moved("torchtitan", 0, {"reshard_after_forward=always"}), 3, 1e-4);
  EXPECT_NEAR(elements_moved("megatron", 1, {}), 2, 1e-4);
  EXPECT_NEAR(elements_moved("deepspeed", 1, {}), 3, 1e-4);  // what it really runs: all-reduces
}

// The FSDP paper (arXiv 2304.11277): a model of M bytes on W = 16 ranks moves 2 M (W - 1) / W per
// rank if it is replicated and 3 M (W - 1) / W if it is fully sharded; 10 GB: 18.75 and 28.125.
TEST(Published, FullShardingMovesOneHalfMoreThanReplication) {
  const Architecture a = llama(4, 1024, 8, 32000);
  const auto moved = [&](const char* name, const Lines& changes) {
    Plan plan = split_of(1, 16, 512);
    plan.grad_dtype = DType::bf16;
    const double wire = static_cast<double>(
        total(predict(a, plan, profile_of(name, changes)), 0, &Volume::wire_bytes));
    return 10 * wire / (2 * static_cast<double>(parameter_count(a)));
  };
  EXPECT_NEAR(moved("ddp", {}), 18.75, 1e-3);
  EXPECT_NEAR(moved("torchtitan", {"reshard_after_forward=always"}), 28.125, 1e-3);
  EXPECT_NEAR(moved("torchtitan", {"reshard_after_forward=never"}), 18.75, 1e-3);
}

// Ten 1024 x 1024 float32 weights under DDP: one reduction of everything in the first step, then
// 1, 7 and 2 of them (reducer.cpp; a bucket closes when it reaches its cap).
TEST(Published, DdpRebuildsItsBucketsAfterTheFirstStep) {
  GradientSyncDecl ddp;
  ddp.kind = SyncKind::bucketed;
  std::vector<GradientLeaf> leaves(10);
  for (size_t i = 0; i < leaves.size(); ++i) {
    leaves[i].data = 1;
    leaves[i].ready = OpId(i);
    leaves[i].local = {1024, 1024};
  }
  const auto sizes = [&] {
    std::vector<Count> list;
    for (const Bucket& b : cut_into_buckets(ddp, leaves)) list.push_back(b.elements);
    return list;
  };
  EXPECT_THAT(sizes(), ElementsAre(1'048'576u, 7'340'032u, 2'097'152u));
  ddp.first_iteration = true;
  EXPECT_THAT(sizes(), ElementsAre(10'485'760u));
}

}  // namespace
}  // namespace s2t
