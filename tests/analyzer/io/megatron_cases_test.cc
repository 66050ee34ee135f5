// Numbers that papers, model cards and frameworks print, against the prediction. Configs are written
// here from the published sizes.
#include <gmock/gmock.h>

#include "analyzer/io/hf_config.h"
#include "analyzer/program/tally.h"
#include "tests/analyzer/io/predicted.h"

namespace s2t {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// --- degrees and groups --------------------------------------------------------------------------

std::vector<Rank> first_group(const Program& p, const char* axis) {
  return p.mesh.groups(p.mesh.family_of(p.mesh.find(axis)->atoms)).at(0);
}

// Narayanan et al. 2021, table 1 and examples/academic_paper_scripts/sc21: microbatches and bubble
// follow from the batch, the GPUs and the degrees.
struct Row {
  int64_t batch, gpus, tp, pp, micro, layers, vpp;
  int64_t dp, microbatches;
  double bubble;
};
class MegatronTable1 : public testing::TestWithParam<Row> {};
TEST_P(MegatronTable1, FollowsFromTheDegrees) {
  const Row& row = GetParam();
  Plan plan = plan_of(row.tp, 128, false);
  plan.pp = row.pp;
  plan.vpp = row.vpp;
  plan.world = row.gpus;
  plan.micro_batch = row.micro;
  plan.global_batch = row.batch;
  const Program p = predict(dense(row.layers, 64, 8), plan);
  EXPECT_EQ(p.mesh.find("dp")->size, row.dp);
  EXPECT_EQ(p.microbatches, row.microbatches);
  EXPECT_NEAR(p.timeline->bubble(), row.bubble, 5e-5);
}
INSTANTIATE_TEST_SUITE_P(Rows, MegatronTable1,
                         testing::Values(Row{1536, 512, 8, 2, 4, 48, 1, 32, 12, 0.0833},
                                         Row{1792, 1024, 8, 4, 2, 60, 3, 32, 28, 0.0357},
                                         Row{2304, 1536, 8, 8, 2, 80, 2, 24, 48, 0.0729},
                                         Row{3072, 3072, 8, 64, 1, 128, 1, 6, 512, 0.1230}));

TEST(MegatronPipeline, ChunksDivideTheLayersOfARank) {
  for (int64_t vpp = 1; vpp <= 8; ++vpp) {
    Plan plan = plan_of(1, 16, false);
    plan.pp = plan.global_batch = 4;
    plan.vpp = vpp;
    Diagnostics sink("config.json");
    const bool fits =
        build_transformer(dense(24, 64, 8), plan, *find_profile("megatron"), sink).has_value();
    EXPECT_EQ(fits, vpp == 1 || vpp == 2 || vpp == 3 || vpp == 6) << vpp;
  }
}

// 126 layers on 16 stages: 128 places, one less at each end.
TEST(MegatronPipeline, EndsMayHoldFewerLayers) {
  Plan plan;
  plan.pp = 16;
  plan.first_layers = plan.last_layers = 7;
  const Plan r = resolved(plan, dense(126, 64, 8));
  EXPECT_EQ(r.stage_layers.front(), 7);
  EXPECT_EQ(r.stage_layers.back(), 7);
  EXPECT_THAT(std::vector<int64_t>(r.stage_layers.begin() + 1, r.stage_layers.end() - 1), Each(8));
  EXPECT_TRUE(resolved(plan, dense(127, 64, 8)).stage_layers.empty());
  plan.first_layers = plan.last_layers = 0;
  EXPECT_THAT(refusals(dense(126, 64, 8), plan), Contains(HasSubstr("126 layers do not divide")));
}

// 32 layers divide into 4 stages, but not with 3 on the first: never quietly 8 on each.
TEST(MegatronPipeline, EndsThatLeaveNoEqualRestAreRefused) {
  Plan plan;
  plan.pp = 4;
  plan.seq = 128;
  plan.first_layers = 3;
  EXPECT_TRUE(resolved(plan, dense(32, 64, 8)).stage_layers.empty());
  EXPECT_THAT(
      refusals(dense(32, 64, 8), plan),
      Contains(HasSubstr(
          "--first-layers: 29 of 32 layers are left for 3 pipeline ranks; expected 2 or 5")));
}

TEST(MegatronRanks, TwoOrdersOfTheSameDegrees) {
  Plan plan = plan_of(2, 128, false);
  plan.pp = plan.dp = 2;
  plan.order = "tp-pp-dp";
  Program p = predict(dense(2, 64, 4), plan);
  EXPECT_THAT(first_group(p, "pp"), ElementsAre(Rank(0), Rank(2)));
  EXPECT_THAT(first_group(p, "dp"), ElementsAre(Rank(0), Rank(4)));
  plan.order = "tp-dp-pp";
  p = predict(dense(2, 64, 4), plan);
  EXPECT_THAT(first_group(p, "dp"), ElementsAre(Rank(0), Rank(2)));
  EXPECT_THAT(first_group(p, "pp"), ElementsAre(Rank(0), Rank(4)));
}

// Llama 3 (arXiv 2407.21783), section 3.3.2: TP, CP, PP, DP from the inside out.
TEST(Llama3, NumbersItsRanksFromTheInsideOut) {
  Plan plan = plan_of(2, 128, true);
  plan.cp = plan.pp = plan.dp = 2;
  plan.order = "tp-cp-pp-dp";
  const Program p = predict(dense(2, 64, 4), plan, {"context_parallel=all_gather"});
  EXPECT_THAT(first_group(p, "tp"), ElementsAre(Rank(0), Rank(1)));
  EXPECT_THAT(first_group(p, "cp"), ElementsAre(Rank(0), Rank(2)));
  EXPECT_THAT(first_group(p, "pp"), ElementsAre(Rank(0), Rank(4)));
  EXPECT_THAT(first_group(p, "dp"), ElementsAre(Rank(0), Rank(8)));
  const std::vector<AxisShape> axes{{"dp", 8, AxisKind::data, {}},
                                    {"pp", 16, AxisKind::pipeline, {}},
                                    {"cp", 16, AxisKind::data, {}},
                                    {"tp", 8, AxisKind::model, {}}};
  EXPECT_EQ(Mesh(axes, {}).rank_of({2, 7, 5, 3}), Rank(5035));
}

// Table 4 of the same: three ways to train on 16,777,216 tokens per step.
TEST(Llama3, TrainsOnSixteenMillionTokensPerStep) {
  struct {
    int64_t tp, cp, pp, dp, seq, per_replica, world;
  } const rows[] = {{8, 1, 16, 64, 8192, 32, 8192},
                    {8, 1, 16, 128, 8192, 16, 16384},
                    {8, 16, 16, 8, 131072, 16, 16384}};
  for (const auto& row : rows) {
    Plan plan = plan_of(row.tp, row.seq, true);
    plan.cp = row.cp;
    plan.pp = row.pp;
    plan.world = row.world;
    plan.global_batch = row.per_replica * row.dp;
    plan.stage_layers.assign(16, 1);
    const Program p = predict(dense(16, 1024, 128), plan, {"context_parallel=all_gather"});
    EXPECT_EQ(p.mesh.find("dp")->size, row.dp);
    EXPECT_EQ(p.microbatches, row.per_replica);
    EXPECT_EQ(row.dp * p.microbatches * row.seq, 16'777'216);
  }
}

// Megatron core's published configs: the dense and the expert mesh share the pipeline only.
TEST(MegatronExperts, HaveAMeshOfTheirOwn) {
  struct {
    int64_t gpus, tp, pp, ep, dp, edp;
  } const rows[] = {{64, 1, 4, 8, 16, 2}, {256, 4, 4, 8, 16, 8}, {1024, 2, 16, 64, 32, 1}};
  for (const auto& row : rows) {
    Plan plan = plan_of(row.tp, 4096, true);
    plan.pp = row.pp;
    plan.ep = row.ep;
    plan.etp = 1;
    plan.world = row.gpus;
    Architecture a = mixtral(16);
    a.experts->experts = 64;
    const Program p = predict(a, plan);
    EXPECT_EQ(p.mesh.find("dp")->size, row.dp);
    const Axis* edp = p.mesh.find("edp");
    EXPECT_EQ(edp ? edp->size : 1, row.edp);
  }
}

Architecture deepseek_v3() {
  return parse_hf_config(R"({"model_type": "deepseek_v3", "hidden_size": 7168,
      "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_attention_heads": 128,
      "num_key_value_heads": 128, "num_hidden_layers": 61, "vocab_size": 129280,
      "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1,
      "first_k_dense_replace": 3, "q_lora_rank": 1536, "kv_lora_rank": 512,
      "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128})");
}

// arXiv 2412.19437: 2048 GPUs, 16 stages, 64-way experts over 8 nodes, no tensor parallelism.
TEST(DeepSeekV3, RunsOnTwoThousandGpus) {
  Plan plan = plan_of(1, 4096, false);
  plan.pp = 16;
  plan.ep = 64;
  plan.world = 2048;
  plan.global_batch = 15360;
  plan.stage_layers = {3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 2};
  const Program p = predict(deepseek_v3(), plan);
  EXPECT_EQ(p.parameters, 671'026'419'200u);
  EXPECT_EQ(p.mesh.find("dp")->size, 128);
  EXPECT_EQ(p.mesh.find("edp")->size, 2);
  EXPECT_EQ(p.microbatches, 120);
  EXPECT_EQ(128 * p.microbatches * 4096, 62'914'560);
  // The first three layers are dense and lie on the first stage.
  EXPECT_EQ(of(p, Phase::forward, "layers.2."), Counts{});
  EXPECT_EQ(of(p, Phase::forward, "layers.3.moe"),
            (Counts{{"ep all_to_all 469762048>469762048", 2}, {"ep all_to_all 65536>65536", 1}}));
  EXPECT_THAT(calls(p), Contains("expert_bias dp all_reduce 4096>4096"));  // 4 layers x 256 x 4 B
}

// --- one layer -----------------------------------------------------------------------------------

constexpr const char* kS = "tp all_reduce 67108864>67108864";
constexpr const char* kGather = "tp all_gather 8388608>67108864";
constexpr const char* kScatter = "tp reduce_scatter 67108864>8388608";

TEST(MegatronRecompute, OfWholeLayersRepeatsWhatTheForwardSent) {
  Plan plan = plan_of(8, 4096, false);
  plan.recompute = Recompute::full;
  Program p = predict(dense(2, 8192, 64), plan);
  EXPECT_EQ(of(p, Phase::recompute, "layers.1."), (Counts{{kS, 2}}));
  EXPECT_EQ(of(p, Phase::backward, "layers.1."), (Counts{{kS, 2}}));
  plan.sp = true;
  p = predict(dense(2, 8192, 64), plan);
  EXPECT_EQ(of(p, Phase::recompute, "layers.1."), (Counts{{kGather, 2}, {kScatter, 2}}));
  EXPECT_EQ(of(p, Phase::backward, "layers.1."), (Counts{{kGather, 4}, {kScatter, 2}}));
  EXPECT_EQ(of(p, Phase::recompute, "embed"), Counts{});
  EXPECT_EQ(of(p, Phase::recompute, "head"), Counts{});
  plan.recompute = Recompute::selective;
  EXPECT_EQ(of(predict(dense(2, 8192, 64), plan), Phase::recompute, ""), Counts{});
}

TEST(MegatronRecompute, OfExpertsRepeatsCountsAndExchangesButNotTheBatch) {
  Plan plan = plan_of(2, 4096, true);
  plan.dp = 4;
  plan.ep = 8;
  plan.etp = 1;
  plan.recompute = Recompute::full;
  const Program p = predict(mixtral(1), plan);
  EXPECT_EQ(of(p, Phase::recompute, "layers.0.moe"), of(p, Phase::forward, "layers.0.moe"));
  const std::vector<std::string> all = calls(p);
  EXPECT_EQ(std::count(all.begin(), all.end(), "layers.0.moe.counts ep all_gather 64>512"), 2);
  EXPECT_EQ(std::count(all.begin(), all.end(), "batch.tokens tp broadcast 32768>32768"), 1);
}

// Down-projections are whole on every rank and see its own tokens; only what goes up is gathered.
TEST(MegatronLatentAttention, GathersLatentsInsteadOfActivations) {
  Architecture a = deepseek_v3();
  a.layers = a.experts->first_dense = 1;
  const Program p = predict(a, plan_of(8, 4096, true));
  EXPECT_EQ(of(p, Phase::forward, "layers.0.attn"),
            (Counts{{"tp all_gather 1572864>12582912", 1},  // 512 x 1536 x 2 B
                    {"tp all_gather 524288>4194304", 1},    // 512 x 512 x 2 B
                    {"tp all_gather 65536>524288", 1},      // 512 x 64 x 2 B
                    {"tp reduce_scatter 58720256>7340032", 1}}));
  EXPECT_EQ(of(p, Phase::backward, "layers.0.attn"),
            (Counts{{"tp all_gather 1572864>12582912", 1},
                    {"tp all_gather 524288>4194304", 1},
                    {"tp all_gather 7340032>58720256", 1},
                    {"tp reduce_scatter 12582912>1572864", 1},
                    {"tp reduce_scatter 4194304>524288", 1},
                    {"tp reduce_scatter 524288>65536", 1}}));
}

// Switch Transformer (arXiv 2101.03961): 4096 tokens, capacity factor 1.25, width 768.
TEST(Switch, MovesItsCapacityWhereverTokensGo) {
  Architecture a = dense(1, 768, 12);
  a.experts = Experts{64, 1, 3072};
  Plan plan = plan_of(1, 4096, false);
  plan.dp = plan.ep = 8;
  Model model = model_of(a, plan, {"moe_counts=none", "moe_probs=none"});
  model.routing.at(0).capacity_factor = 1.25;
  model.routing.at(0).pad_to_capacity = true;
  const Program p = analyze(model);
  const Counts each_way{{"ep all_to_all 7864320>7864320", 2}};
  EXPECT_EQ(of(p, Phase::forward, "layers.0.moe"), each_way);
  EXPECT_EQ(of(p, Phase::backward, "layers.0.moe"), each_way);
  EXPECT_THAT(calls(p), Each(Not(HasSubstr("counts"))));
}

// A replay of an A100 run, 10 steps of 2 microbatches: 32 layers of attention whose experts are whole
// on each rank, tp 2 with sequence parallelism: 1920 all-gathers and 1280 reduce-scatters of
// 16,777,216 B, 60 all-reduces of the loss. Its positions are learned: then the embedding is an
// all-reduce of whole tokens, and the head, which the replay lists without sequence parallelism,
// one of its input gradient: 40.
class Replay : public testing::Test {
 protected:
  static constexpr int kMicrobatches = 2 * 10;

  static Program run(bool sequence_parallel) {
    Architecture a = dense(32, 4096, 32);
    a.positions = Positions::learned;
    a.position_rows = 2048;
    Plan plan = plan_of(2, 2048, sequence_parallel);
    if (!sequence_parallel) return predict(a, plan);  // Megatron has no experts then
    a.experts = Experts{8, 2, 14336};
    plan.ep = 2;
    plan.etp = 1;
    return predict(a, plan);
  }
};

TEST_F(Replay, OfThirtyTwoAttentionBlocks) {
  const Program p = run(true);
  int gathers = 0, scatters = 0;
  for (int layer = 0; layer < 32; ++layer)
    for (const Phase phase : {Phase::forward, Phase::backward})
      for (const auto& [what, n] : of(p, phase, fmt::format("layers.{}.attn", layer))) {
        if (what == "tp all_gather 8388608>16777216") gathers += n;
        if (what == "tp reduce_scatter 16777216>8388608") scatters += n;
      }
  EXPECT_EQ(gathers * kMicrobatches, 1920);
  EXPECT_EQ(scatters * kMicrobatches, 1280);
  const Counts loss{{"tp all_reduce 8192>8192", 3}};
  EXPECT_EQ(of(p, Phase::forward, "loss"), loss);
  EXPECT_EQ(3 * kMicrobatches, 60);
}

TEST_F(Replay, OfTheEmbeddingAndTheHead) {
  const std::string whole = "tp all_reduce 16777216>16777216";
  const Counts once{{whole, 1}};
  EXPECT_EQ(of(run(true), Phase::forward, "embed"), once);
  const Program p = run(false);
  EXPECT_EQ(of(p, Phase::forward, "embed"), once);
  EXPECT_EQ(of(p, Phase::backward, "embed"), Counts{});
  EXPECT_EQ(of(p, Phase::forward, "head"), Counts{});
  EXPECT_EQ(of(p, Phase::backward, "head"), once);
  EXPECT_EQ((1 + 1) * kMicrobatches, 40);
}

// --- gradients and the step ----------------------------------------------------------------------

// ZeRO (arXiv 1910.02054): plain data parallelism and stage 1 move the same number of elements.
TEST(Zero, StageOneMovesWhatAnAllReduceMoves) {
  Plan plan = plan_of(1, 128, false);
  plan.dp = 64;
  const auto wire_elements = [&](const Program& p) {
    Count n = 0;
    for (const Event& e : p.after)
      if (!besides(p, e)) n += e.volume.wire_bytes / size_of(e.dtype);
    return n;
  };
  const Architecture a = dense(2, 1024, 8);
  const Count total = parameter_count(a), expected = 2 * total / 64 * 63;
  EXPECT_EQ(wire_elements(predict(a, plan)), expected);
  plan.zero = 1;
  EXPECT_EQ(wire_elements(predict(a, plan)), expected);
}

TEST(MegatronStep, ASharedTableHasABucketOfItsOwnUnderAShardedOptimizer) {
  Plan plan = plan_of(1, 128, false);
  plan.pp = plan.dp = 2;
  plan.zero = 1;
  const std::vector<std::string> lines = after(predict(gpt(2, 64, 4), plan));
  const std::string table = fmt::format("dp reduce_scatter {}>{}", 51200 * 64 * 4, 51200 * 64 * 2);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), table), 2);
  EXPECT_THAT(lines, Contains(fmt::format("embd all_reduce {0}>{0}", 51200 * 64 * 4)));
}

TEST(MegatronStep, HandsOutTheBatchAndAgreesOnScalars) {
  Plan plan = plan_of(2, 16, true);
  plan.pp = plan.dp = 2;
  plan.micro_batch = 3;
  EXPECT_THAT(
      calls(predict(dense(2, 64, 4), plan)),
      ElementsAre("batch.tokens tp broadcast 384>384", "batch.attention_mask tp broadcast 768>768",
                  "batch.position_ids tp broadcast 384>384", "batch.labels tp broadcast 384>384",
                  "batch.loss_mask tp broadcast 192>192",
                  "batch.attention_mask tp broadcast 768>768", "grad_norm pp-tp all_reduce 4>4",
                  "step_succeeded pp-tp all_reduce 4>4", "grad_norm.max pp-tp all_reduce 4>4",
                  "loss.logged dp all_reduce 8>8"));
  plan.dtype = DType::f16;
  plan.zero = 1;
  EXPECT_THAT(calls(predict(dense(2, 64, 4), plan)), Contains("found_inf pp-dp-tp all_reduce 4>4"));
  EXPECT_THAT(calls(predict(dense(2, 64, 4), plan,
                            {"batch_broadcast=none", "grad_norm=none", "step_statistics=none",
                             "loss_logging=none", "loss_scaling=none"})),
              IsEmpty());
}

// pretrain_gpt.py of core 0.8 to 0.12, loss_func: behind all that the loss itself sends, first over
// the ranks that share a sample, then over those with others. 0.13 does it once per step.
TEST(MegatronStep, AveragesTheLossOfEachMicrobatchUpToCore012) {
  Plan plan = plan_of(2, 16, true);
  plan.pp = plan.dp = plan.cp = 2;
  plan.global_batch = 4;
  const auto last_forward = [&](const Program& p) {
    std::vector<std::string> lines;
    for (const Segment::Item& item : p.stages.back().forward.items)
      if (item.event.module == "loss" && item.event.op == Collective::all_reduce)
        lines.push_back(line(p, item.event));
    return lines;
  };
  for (const char* fused : {"unfused", "fused"}) {
    const std::string change = std::string("cross_entropy=") + fused;
    const Program old = predict(dense(2, 64, 4), plan, profile_of("megatron-0.8", {change}));
    const std::vector<std::string> lines = last_forward(old);
    ASSERT_EQ(lines.size(), change.ends_with("=fused") ? 4u : 5u);
    EXPECT_THAT(std::vector<std::string>(lines.end() - 2, lines.end()),
                ElementsAre("cp all_reduce 8>8", "dp all_reduce 8>8"));
    EXPECT_THAT(calls(old), Not(Contains("loss.logged dp-cp all_reduce 8>8")));
    const Program newer = predict(dense(2, 64, 4), plan, {change});
    EXPECT_EQ(last_forward(newer).size(), lines.size() - 2);
    EXPECT_THAT(calls(newer), Contains("loss.logged dp-cp all_reduce 8>8"));
    EXPECT_EQ(last_forward(predict(dense(2, 64, 4), plan, {change, "loss_logging=microbatch"})),
              lines);
  }
}

// Core 0.8, ChainedOptimizer.step: each optimizer takes its own norm, over all ranks if sharded.
TEST(MegatronStep, TakesTheNormOfEachOptimizerInCore08) {
  Plan plan = plan_of(1, 128, false);
  plan.pp = plan.dp = plan.ep = 2;
  const auto norms = [&] {
    std::vector<std::string> lines = calls(predict(mixtral(2), plan, profile_of("megatron-0.8")));
    std::erase_if(lines, [](const std::string& l) { return l.find("grad_norm") == l.npos; });
    return lines;
  };
  EXPECT_THAT(norms(),
              ElementsAre("grad_norm pp all_reduce 4>4", "grad_norm.experts pp-ep all_reduce 4>4"));
  plan.zero = 1;
  EXPECT_THAT(norms(), ElementsAre("grad_norm pp-dp all_reduce 4>4",
                                   "grad_norm.experts pp-dp all_reduce 4>4"));
}

// pretrain_gpt.py, get_batch: stages between the first and the last read none.
TEST(MegatronStep, HandsOutAMaskToTheEndsOfThePipelineUnlessToldOtherwise) {
  const std::string mask = "batch.attention_mask tp broadcast 256>256";
  const auto masks = [&](const Plan& plan, const std::vector<std::string>& changes = {}) {
    const auto lines = calls(predict(dense(3, 64, 4), plan, changes));
    return std::count(lines.begin(), lines.end(), mask);
  };
  Plan plan = plan_of(2, 16, false);
  EXPECT_EQ(masks(plan), 1);
  EXPECT_EQ(masks(plan, {"attention_mask=none"}), 0);
  plan.pp = 3;
  EXPECT_EQ(masks(plan), 2);
}

// finalize_model_grads.py: over pp from the last stage, then over all replicas.
TEST(MegatronScalars, CountTheTokensThatTheLossIsDividedBy) {
  Plan plan = plan_of(1, 16, false);
  plan.dp = plan.cp = plan.pp = 2;
  const auto lines = [&](const Profile& profile) {
    std::vector<std::string> found;
    for (const std::string& l : calls(predict(dense(2, 64, 4), plan, profile)))
      if (l.rfind("tokens.", 0) == 0) found.push_back(l);
    return found;
  };
  EXPECT_THAT(lines(profile_of("megatron")), ElementsAre());
  EXPECT_THAT(lines(profile_of("megatron", {"loss_divisor=tokens"})),
              ElementsAre("tokens.counted pp broadcast 4>4", "tokens.all dp-cp all_reduce 4>4"));
  EXPECT_THAT(lines(profile_of("megatron-0.8", {"loss_divisor=tokens"})),
              ElementsAre("tokens.counted pp broadcast 4>4", "tokens.all dp all_reduce 4>4"));
}

}  // namespace
}  // namespace s2t
