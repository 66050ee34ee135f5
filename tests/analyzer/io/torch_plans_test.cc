// What torchtitan and DeepSpeed add to a plan: sequence-parallel heads, partitioned borders.
#include <gmock/gmock.h>

#include "analyzer/program/listing.h"
#include "analyzer/program/tally.h"
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

// --- groups --------------------------------------------------------------------------------------

Lines groups_of(const Architecture& a, int64_t tp, int64_t pp, const char* profile) {
  Plan p = framework_steps::split_of(tp, 2, 16);
  p.pp = pp;
  p.global_batch = 4;
  Lines names;
  for (const Family& f : predict(a, p, profile_of(profile)).families) names.push_back(f.name);
  return names;
}

// device_mesh.py, _init_process_groups: a mesh (pp, dp, tp), dim by dim.
TEST(GroupOrder, OfADeviceMeshIsThatOfItsDims) {
  EXPECT_THAT(groups_of(framework_steps::llama(2, 64, 8, 96), 2, 2, "torchtitan"),
              ElementsAre("pp", "dp", "tp"));
}

// runtime/pipe/topology.py, PipelineParallelGrid: ds_model, data, pipe, model.
TEST(GroupOrder, OfADeepSpeedPipelineBeginsWithTheWholeModel) {
  EXPECT_THAT(groups_of(framework_steps::llama(2, 64, 8, 96), 2, 2, "deepspeed"),
              ElementsAre("pp-tp", "dp", "pp", "tp"));
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
}

// runtime/zero/parameter_offload.py: every module that has the table fetches it.
TEST(DeepSpeed, GathersATiedTableForBothOfItsReaders) {
  Plan plan = framework_steps::split_of(1, 4, 32);
  plan.zero = 3;
  const Program p = predict(framework_steps::gpt2(1, 64, 8, 96), plan,
                            profile_of("deepspeed", {"param_persistence_threshold=64"}));
  const std::string table = fmt::format("dp all_gather {}>{}", 96 * 64 * 2 / 4, 96 * 64 * 2);
  const Lines there = step(p, 0, Phase::forward), back = step(p, 0, Phase::backward);
  EXPECT_EQ(there.front(), table);
  EXPECT_EQ(there.back(), table);
  EXPECT_EQ(back.front(), table);
  EXPECT_EQ(std::count(there.begin(), there.end(), table), 2);
  EXPECT_EQ(std::count(back.begin(), back.end(), table), 2);
}

// runtime/engine.py, _configure_zero_optimizer.
TEST(DeepSpeed, HasNoExpertsUnderStageThree) {
  Plan plan = framework_steps::split_of(1, 8, 64);
  plan.ep = 4;
  plan.zero = 3;
  EXPECT_THAT(refusals(framework_steps::mixtral(1, 64, 8, 2), plan, profile_of("deepspeed")),
              Contains(HasSubstr("MoE not supported with Stage 3")));
}

// --- DeepSpeed: a pipeline of tensor-parallel stages ---------------------------------------------

Plan cut_borders() {
  Plan p = framework_steps::split_of(2, 1, 32);
  p.pp = 2;
  return p;
}

Architecture two_layers() {
  return framework_steps::llama(2, 64, 8, 96);
}

// What crosses the border on the ranks of the first stage, and over tp right around it.
Lines at_the_border(const Program& p, int rank) {
  Lines lines;
  for (const Event& e : events_of(p, Rank(rank)))
    if (e.op == Collective::send || e.op == Collective::recv || e.module.rfind("border", 0) == 0)
      lines.push_back(fmt::format("{} {}", to_string(e.phase), line(p, e)));
  return lines;
}

// runtime/pipe/engine.py: 32 tokens x 64 x 2 B over 2 ranks, behind 2 + 7 numbers of 8 B.
TEST(DeepSpeedPipeline, SendsPartsBehindHowTheyWereCut) {
  const Program p = predict(two_layers(), cut_borders(), profile_of("deepspeed"));
  EXPECT_THAT(at_the_border(p, 0),
              ElementsAre("forward pp send 72>0", "forward pp send 2048>0", "backward pp recv 0>72",
                          "backward pp recv 0>2048", "backward tp all_gather 2048>4096",
                          "backward tp all_gather 2048>4096"));
  EXPECT_THAT(at_the_border(p, 2), ElementsAre("forward pp recv 0>72", "forward pp recv 0>2048",
                                               "forward tp all_gather 2048>4096",
                                               "backward pp send 72>0", "backward pp send 2048>0"));
}

// Two microbatches as DeepSpeed 0.14.4 sent them, run over gloo with eight processes: a gradient is
// received before an activation is sent.
TEST(DeepSpeedPipeline, OrdersMessagesAndGathersAsDeepSpeedDid) {
  Plan plan = cut_borders();
  plan.dp = 2;
  plan.global_batch = 4;
  const Program p = predict(two_layers(), plan, profile_of("deepspeed"));
  const auto kinds = [&](int rank) {
    std::string text;
    for (const Event& e : events_of(p, Rank(rank)))
      if (e.op == Collective::send || e.op == Collective::recv || e.module.rfind("border", 0) == 0)
        text += fmt::format("{}{} ", info(e.op).name, e.dtype == DType::i64 ? "*" : "");
    return text;
  };
  EXPECT_EQ(kinds(0),
            "send* send recv* recv send* send all_gather all_gather recv* recv all_gather "
            "all_gather ");
  EXPECT_EQ(kinds(4), "recv* recv all_gather send* send recv* recv all_gather send* send ");
}

// What was sent first, then its gradient.
TEST(DeepSpeedPipeline, BeginsABackwardWithTwoGathers) {
  const Program p = predict(two_layers(), cut_borders(), profile_of("deepspeed"));
  Lines tensors;
  for (const Event& e : events_of(p, Rank(0)))
    if (e.phase == Phase::backward && e.op == Collective::all_gather) tensors.push_back(e.tensor);
  EXPECT_THAT(tensors, ElementsAre("border.1.part.again", HasSubstr("layers.0.mlp")));
}

TEST(DeepSpeedPipeline, SendsWholeValuesWithoutTensorParallelism) {
  Plan plan = cut_borders();
  plan.tp = 1;
  const Program p = predict(two_layers(), plan, profile_of("deepspeed"));
  EXPECT_THAT(at_the_border(p, 0),
              ElementsAre("forward pp send 4096>0", "backward pp recv 0>4096"));
}

// --- DeepSpeed: scalars --------------------------------------------------------------------------

Lines scalars(Plan plan, const Architecture& a) {
  Lines lines;
  for (const std::string& text : calls(predict(a, plan, profile_of("deepspeed"))))
    if (text.rfind("grad_norm", 0) == 0 || text.rfind("overflow", 0) == 0)
      lines.push_back(text.substr(0, text.rfind(' ')));
  return lines;
}

// runtime/zero/stage_1_and_2.py, scaled_global_norm; runtime/bf16_optimizer.py, step;
// runtime/fp16/fused_optimizer.py, step.
TEST(DeepSpeed, HasANormOfExpertsOfItsOwn) {
  Plan plan = framework_steps::split_of(1, 8, 64);
  plan.ep = 4;
  const Architecture a = framework_steps::mixtral(1, 64, 8, 2);
  EXPECT_THAT(scalars(plan, a), ElementsAre("grad_norm.experts ep all_reduce"));
  plan.zero = 1;
  EXPECT_THAT(scalars(plan, a),
              ElementsAre("grad_norm.dp dp all_reduce", "grad_norm.dp dp all_reduce",
                          "grad_norm.experts edp all_reduce"));
  plan.zero = 0;
  plan.dtype = DType::f16;
  EXPECT_THAT(scalars(plan, a),
              ElementsAre("overflow.experts ep all_reduce", "grad_norm.experts ep all_reduce"));
}

// As DeepSpeed 0.14.4 ended a step, run over gloo with four processes and an MoE layer of ep 2.
TEST(DeepSpeed, EndsAStepWithExpertsAsDeepSpeedDid) {
  Plan plan = framework_steps::split_of(1, 4, 64);
  plan.ep = 2;
  plan.zero = 2;
  const Program p = predict(framework_steps::mixtral(1, 64, 8, 2), plan, profile_of("deepspeed"));
  Lines lines;
  for (const Event& e : events_of(p, Rank(0)))
    if (e.phase == Phase::grad_sync || e.phase == Phase::step)
      lines.push_back(
          fmt::format("{} {}", p.families[e.family].name, std::string(info(e.op).name)));
  EXPECT_THAT(lines,
              ElementsAre("dp all_reduce", "edp all_reduce", "dp all_reduce", "dp all_reduce",
                          "edp all_reduce", "dp all_gather", "edp all_gather"));
}

TEST(DeepSpeed, AsksTheRanksOfTheModelForOverflowsWithoutZeRO) {
  Plan plan = cut_borders();
  plan.dtype = DType::f16;
  EXPECT_THAT(scalars(plan, two_layers()),
              ElementsAre("overflow pp-tp all_reduce", "grad_norm pp-tp all_reduce"));
}

// --- torchtitan ----------------------------------------------------------------------------------

// torch _attention.py: 16 tokens x 8 heads x 8 x 2 of keys and values, repeated; bf16, gradients
// float32.
TEST(TorchRing, GathersKeysAndValuesAndPassesGradientsOn) {
  Plan plan = framework_steps::split_of(1, 1, 64);
  plan.cp = 4;
  const Program p = predict(grouped(), plan, profile_of("torchtitan"));
  const std::string unit = "cp all_gather 30784>123136";  // the block's parameters
  EXPECT_EQ(of(p, Phase::forward, "layers.0.attn"),
            (Counts{{unit, 1}, {"cp all_gather 4096>16384", 1}}));
  EXPECT_EQ(of(p, Phase::backward, "layers.0.attn"),
            (Counts{{unit, 1}, {"cp all_gather 4096>16384", 1}, {"cp all_to_all 8192>8192", 4}}));
}

TEST(TorchRing, MayPassKeysAndValuesOnToo) {
  Plan plan = framework_steps::split_of(1, 1, 64);
  plan.cp = 4;
  const Program p =
      predict(grouped(), plan, profile_of("torchtitan", {"context_parallel=exchanged_ring"}));
  Lines lines;
  for (const Event& e : events_of(p, Rank(1)))
    if (e.op == Collective::all_to_all)
      lines.push_back(fmt::format("{} {}", to_string(e.phase), line(p, e)));
  const std::string on = "cp all_to_all 4096>4096", back = "backward cp all_to_all 8192>8192";
  EXPECT_THAT(lines,
              ElementsAre("forward " + on, "forward " + on, "forward " + on, "backward " + on, back,
                          "backward " + on, back, "backward " + on, back, back));
}

TEST(TorchRing, ShardsParametersOverItsRanksToo) {
  Plan plan = framework_steps::split_of(1, 2, 64);
  plan.cp = 2;
  const Program p = predict(grouped(), plan, profile_of("torchtitan"));
  EXPECT_THAT(step(p, 0, Phase::grad_sync), Each(HasSubstr("dp-cp reduce_scatter")));
}

TEST(TorchRing, HasNoLatentAttention) {
  Plan plan = framework_steps::split_of(1, 1, 64);
  plan.cp = 2;
  Architecture a = grouped();
  a.kv_heads = a.heads;
  a.latent = LatentAttention{32, 16, 4, 8, 8};
  EXPECT_THAT(refusals(a, plan, profile_of("torchtitan")), Contains(HasSubstr("equally wide")));
}

// torchtitan 0.3 distributed/fsdp.py: [tok_embeddings, norm, lm_head] are one unit.
TEST(Torchtitan, GathersATiedTableOnceAndReducesItLast) {
  Architecture a = framework_steps::llama(1, 64, 8, 96);
  a.tied = true;
  const Program p = predict(a, framework_steps::split_of(1, 2, 32), profile_of("torchtitan"));
  const Count unit = 96 * 64 + 64;  // the table and the last norm
  const std::string whole = fmt::format("dp all_gather {}>{}", unit, 2 * unit);
  EXPECT_EQ(step(p, 0, Phase::forward).front(), whole);
  EXPECT_THAT(step(p, 0, Phase::backward), Not(Contains(whole)));
  EXPECT_EQ(step(p, 0, Phase::grad_sync).back(),
            fmt::format("dp reduce_scatter {}>{}", 4 * unit, 2 * unit));
}

// Experts of the last block are gathered for the forward that is computed again.
TEST(Torchtitan, GathersExpertsBeforeTheirForwardComesAgain) {
  Plan plan = framework_steps::split_of(1, 4, 32);
  plan.ep = 2;
  plan.recompute = Recompute::full;
  const Program p = predict(framework_steps::mixtral(2, 64, 8, 2), plan, profile_of("torchtitan"));
  bool gathered = false, checked = false;
  for (const Event& e : events_of(p, Rank(0))) {
    gathered |= e.phase == Phase::backward && e.op == Collective::all_gather &&
                e.tensor.rfind("layers.1.moe.experts", 0) == 0;
    if (e.phase == Phase::recompute && e.module == "layers.1.moe" && !checked) {
      EXPECT_TRUE(gathered);
      checked = true;
    }
  }
  EXPECT_TRUE(checked);
}

TEST(Torchtitan, CopiesOfExpertsAreThoseOfEverythingElse) {
  Plan plan = framework_steps::split_of(1, 8, 32);
  plan.ep = 2;
  const Program p = predict(framework_steps::mixtral(1, 64, 8, 2), plan,
                            profile_of("torchtitan", {"replicate=2"}));
  int experts = 0;
  for (const Event& e : events_of(p, Rank(0)))
    if (e.phase == Phase::grad_sync && e.tensor.find(".experts.") != std::string::npos) {
      EXPECT_EQ(p.families[e.family].name,
                e.op == Collective::all_reduce ? "dp_replicate" : "edp_shard");
      ++experts;
    }
  EXPECT_EQ(experts, 2);
}

// --- ddp -----------------------------------------------------------------------------------------

// nn/parallel/distributed.py: a forward that follows one under no_sync leaves buffers as they are.
TEST(Ddp, BroadcastsBuffersBeforeTheFirstForwardOfAStep) {
  Plan plan = framework_steps::split_of(1, 2, 32);
  plan.global_batch = 6;
  const auto count = [&](const std::vector<std::string>& changes) {
    const Lines lines = step(predict(two_layers(), plan, profile_of("ddp", changes)), 1);
    return std::count(lines.begin(), lines.end(), "dp broadcast 256>256");
  };
  EXPECT_EQ(count({}), 0);
  EXPECT_EQ(count({"buffers=64"}), 1);
  EXPECT_EQ(count({"buffers=64", "every=microbatch"}), 3);
}

// --- torchtitan's ring ----------------------------------------------------------------------------

Plan ring_of(int64_t cp) {
  Plan p;
  p.cp = cp;
  p.seq = 2048;
  return p;
}

std::vector<Event> passed_on(const std::vector<Event>& events) {
  std::vector<Event> some;
  for (const Event& e : events)
    if (e.op == Collective::all_to_all) some.push_back(e);
  return some;
}

std::vector<Event> kept(const Program& p) {
  std::vector<Event> events;
  for_each_kept_event(p, [&](const Event& e) { events.push_back(e); });
  return events;
}

// Once per part, whatever the number of ranks; a small group is spelled out rank by rank.
TEST(TorchRing, KeepsAGradientsPassageOnceAndListsItPerRank) {
  const Program p = predict(grouped(), ring_of(4), profile_of("torchtitan"));
  ASSERT_EQ(passed_on(kept(p)).size(), 4u);
  EXPECT_EQ(passed_on(kept(p)).front().peer_offset, 1);
  const std::vector<Event> all = list_events(p), listed = passed_on(all);
  ASSERT_EQ(listed.size(), 16u);
  EXPECT_EQ(count_events(p), all.size());
  const Count elements = listed[1].volume.elements;
  EXPECT_EQ(listed[1].splits, (Splits{1, {0, 0, elements, 0}, {elements, 0, 0, 0}}));
  EXPECT_EQ(listed[1].peer_offset, std::nullopt);
  EXPECT_EQ(listed[1].call, listed[0].call);
  EXPECT_EQ(listed[1].ranks.along.back().coordinates, std::vector<int64_t>{1});
  EXPECT_EQ(passed_on(events_of(p, Rank(3))).size(), 4u);
}

TEST(TorchRing, TellsTheNeighbourOfALargeGroupByItsOffset) {
  const Program p = predict(grouped(), ring_of(256), profile_of("torchtitan"));
  EXPECT_EQ(passed_on(kept(p)).size(), 256u);
  const std::vector<Event> all = list_events(p), listed = passed_on(all);
  ASSERT_EQ(listed.size(), 256u);
  EXPECT_EQ(count_events(p), all.size());
  EXPECT_EQ(listed[7].peer_offset, 1);
  EXPECT_EQ(listed[7].splits, std::nullopt);
  EXPECT_EQ(listed[7].volume.wire_bytes, listed[7].volume.input_bytes);
}

}  // namespace
}  // namespace s2t
