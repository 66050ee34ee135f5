// Experts under Megatron: their groups, what their dispatchers send, how their gradients are
// reduced. Bytes and order from megatron/core: transformer/moe/token_dispatcher.py, router.py,
// distributed/param_and_grad_buffer.py, optimizer/.
#include <gmock/gmock.h>

#include "analyzer/graph/graph.h"
#include "tests/analyzer/io/predicted.h"

namespace s2t {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::Not;

// 8 experts, 2 of them for each token.
Architecture small(int64_t shared_ffn = 0) {
  Architecture a = dense(2, 1024, 16);
  a.kv_heads = 8;
  a.ffn = 3584;
  a.vocab = 32000;
  a.experts = Experts{8, 2, a.ffn, shared_ffn};
  return a;
}

Plan split(int64_t tp, int64_t dp, int64_t ep, int64_t etp) {
  Plan p = plan_of(tp, 2048, tp > 1);
  p.dp = dp;
  p.ep = ep;
  p.etp = etp;
  return p;
}

// What one module sends, in order, framework's calls included.
std::vector<std::string> sent(const Program& program, Phase phase, const std::string& module) {
  std::vector<std::string> lines;
  for (const Segment* segment : {&program.stages.at(0).forward, &program.stages.at(0).backward})
    for (const Segment::Item& item : segment->items)
      if (item.event.phase == phase && item.event.module == module)
        lines.push_back(line(program, item.event));
  return lines;
}

std::vector<std::vector<Rank>> groups_of(const Program& p, const char* axis) {
  return p.mesh.groups({axis, {axis}, p.mesh.find(axis)->atoms, {}});
}

Count elements_of(const Architecture& a, const Plan& p, bool experts) {
  Count n = 0;
  const Model model = model_of(a, p);
  const Graph graph = build_graph(model);
  for (const Value& v : graph.values)
    if (v.parameter && v.expert == experts)
      n += elements(local_shape(v.shape, v.layout, graph.mesh));
  return n;
}

// --- gradients -----------------------------------------------------------------------------------

// etp x ep = tp: expert and dense data-parallel groups hold the same ranks, and are two groups.
TEST(MegatronExpertGradients, AreNeverReducedWithOthersWhateverTheRanks) {
  const Architecture a = small();
  Plan plan = split(2, 2, 2, 1);
  const auto dense_bytes = 4 * elements_of(a, plan, false);
  const auto expert_bytes = 4 * elements_of(a, plan, true);
  ASSERT_GT(expert_bytes, 0u);
  Program p = predict(a, plan);
  EXPECT_EQ(groups_of(p, "edp"), groups_of(p, "dp"));
  std::vector<std::string> lines = after(p);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], fmt::format("dp all_reduce {0}>{0}", dense_bytes));
  EXPECT_EQ(lines[1], fmt::format("edp all_reduce {0}>{0}", expert_bytes));
  EXPECT_THAT(lines[2], HasSubstr("tp all_reduce"));
  plan.zero = 1;
  lines = after(predict(a, plan, {"parameter_gathers=once"}));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_THAT(lines[0], HasSubstr("dp reduce_scatter"));
  EXPECT_THAT(lines[1], HasSubstr("edp reduce_scatter"));
  EXPECT_THAT(lines[3], HasSubstr("dp all_gather"));
  EXPECT_THAT(lines[4], HasSubstr("edp all_gather"));
}

// Whole experts on every rank: reduced over all four, and not with the norms over tp.
TEST(MegatronExpertGradients, OfWholeExpertsAreReducedOverAllRanks) {
  const Architecture a = small();
  const Plan plan = split(2, 2, 1, 1);
  const Program p = predict(a, plan);
  EXPECT_THAT(groups_of(p, "edp"), ElementsAre(ElementsAre(Rank(0), Rank(1), Rank(2), Rank(3))));
  const std::vector<std::string> lines = after(p);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1], fmt::format("edp all_reduce {0}>{0}", 4 * elements_of(a, plan, true)));
  EXPECT_EQ(lines[2], "tp all_reduce 86016>86016");  // 5 norms of 1024, 2 routers of 8 x 1024
}

// Where they are split as everything else is, they are ordinary parameters.
TEST(MegatronExpertGradients, OfExpertsSplitLikeAllElseAreOrdinary) {
  const Architecture a = small();
  for (const int64_t tp : {1, 2}) {
    const Plan plan = split(tp, 2, 1, tp);
    EXPECT_EQ(elements_of(a, plan, true), 0u);
    const Program p = predict(a, plan);
    EXPECT_EQ(after(p).at(0),
              fmt::format("dp all_reduce {0}>{0}", 4 * elements_of(a, plan, false)));
    EXPECT_THAT(after(p), Each(Not(HasSubstr("edp"))));
    EXPECT_THAT(calls(p), Each(Not(HasSubstr("experts"))));
  }
}

TEST(MegatronExpertGradients, AreLookedAtForOverflowsByAnOptimizerOfTheirOwn) {
  Plan plan = split(1, 4, 2, 1);
  plan.dtype = DType::f16;
  EXPECT_THAT(calls(predict(small(), plan)), Contains("found_inf.experts ep all_reduce 4>4"));
  plan.zero = 1;
  const std::vector<std::string> lines = calls(predict(small(), plan));
  EXPECT_THAT(lines, AllOf(Contains("found_inf dp all_reduce 4>4"),
                           Contains("found_inf.experts dp all_reduce 4>4"),
                           Contains("grad_norm dp all_reduce 4>4"),
                           Not(Contains(HasSubstr("grad_norm.experts")))));
}

// --- groups --------------------------------------------------------------------------------------

// Core 0.8 cuts ep from dp behind cp, later versions fold it over all ranks of a stage.
TEST(MegatronExpertGroups, AreCutBehindContextsInCore08) {
  Plan plan = split(1, 4, 2, 0);
  plan.cp = 2;
  const auto predicted = [&](const char* version) {
    Diagnostics sink("config.json");
    Profile profile = find_profile(version).value();
    EXPECT_FALSE(profile.set("context_parallel=all_gather"));
    auto model = build_transformer(small(), plan, profile, sink);
    sink.throw_if_any();
    return analyze(*model);
  };
  const Program old = predicted("megatron-0.8");
  EXPECT_THAT(groups_of(old, "ep").at(0), ElementsAre(Rank(0), Rank(2)));
  EXPECT_THAT(groups_of(old, "ep").at(1), ElementsAre(Rank(1), Rank(3)));
  EXPECT_THAT(groups_of(old, "edp").at(0), ElementsAre(Rank(0), Rank(4)));
  EXPECT_THAT(after(old), Contains(HasSubstr("edp-cp all_reduce")));
  const auto both =
      old.mesh.groups({"", {}, old.mesh.find("edp")->atoms | old.mesh.find("cp")->atoms, {}});
  EXPECT_THAT(both.at(0), ElementsAre(Rank(0), Rank(1), Rank(4), Rank(5)));
  EXPECT_THAT(groups_of(predicted("megatron"), "ep").at(0), ElementsAre(Rank(0), Rank(1)));
}

TEST(MegatronExpertGroups, OverBothAxesAreNotNamedAfterDenseOnesWithTheSameRanks) {
  EXPECT_THAT(calls(predict(small(), split(2, 2, 2, 2))),
              Contains("layers.0.moe.counts ep-etp all_gather 64>256"));
}

// --- dispatchers ---------------------------------------------------------------------------------

// Rows and weights are exchanged before either is gathered; the backward mirrors it.
// parallel_state.py, initialize_model_parallel.
TEST(MegatronExpertGroups, AreListedInTheOrderInWhichTheyAreCreated) {
  Plan plan = split(2, 4, 4, 2);
  plan.cp = plan.pp = 2;
  plan.global_batch = 8;
  plan.zero = 1;
  Architecture a = small();
  a.tied = true;
  const auto names = [&](const char* profile) {
    std::vector<std::string> all;
    for (const Family& f : predict(a, plan, profile_of(profile)).families) all.push_back(f.name);
    return all;
  };
  EXPECT_THAT(names("megatron"), ElementsAre("dp-cp", "dp", "cp", "pp-tp", "tp", "pp", "embd", "ep",
                                             "etp", "ep-etp", "edp", "pp-dp-cp-tp"));
  EXPECT_THAT(names("megatron-0.8"),
              ElementsAre("dp", "dp-cp", "cp", "tp", "pp", "embd", "ep", "pp-dp-cp-tp"));
}

TEST(MegatronDispatcher, ExchangesRowsAndWeightsBeforeItGathersThem) {
  const Program p = predict(small(), split(2, 2, 2, 2));
  EXPECT_THAT(sent(p, Phase::forward, "layers.0.moe"),
              ElementsAre("ep-etp all_gather 64>256",        // counts
                          "ep all_to_all 4194304>4194304",   // 1024 x 2 rows x 1024 x 2 B
                          "ep all_to_all 4096>4096",         // their weights
                          "etp all_gather 4194304>8388608",  // rows
                          "etp all_gather 4096>8192",        // weights
                          "etp reduce_scatter 8388608>4194304", "ep all_to_all 4194304>4194304"));
  EXPECT_THAT(sent(p, Phase::backward, "layers.0.moe"),
              ElementsAre("ep all_to_all 4194304>4194304", "etp all_gather 4194304>8388608",
                          "etp reduce_scatter 8192>4096", "etp reduce_scatter 8388608>4194304",
                          "ep all_to_all 4096>4096", "ep all_to_all 4194304>4194304"));
}

// 48 rows for 128 experts on 4 ranks: 12 for each rank; 2 rows for 8 experts: none for ranks 0 and 2.
TEST(MegatronDispatcher, SpreadsFewRowsOverAllRanksAndListsNoEmptyCall) {
  Architecture a = small();
  Plan plan = split(2, 4, 4, 2);
  plan.seq = 12;
  a.experts->experts = 128;
  a.experts->top_k = 8;
  EXPECT_THAT(sent(predict(a, plan), Phase::forward, "layers.0.moe"),
              Contains(fmt::format("etp all_gather {0}>{1}", 48 * 2048, 96 * 2048)).Times(1));
  plan.seq = 2;
  a.experts = Experts{8, 2, a.ffn};
  const Program p = predict(a, plan);
  for (const Phase phase : {Phase::forward, Phase::backward})
    EXPECT_THAT(sent(p, phase, "layers.0.moe"), Not(Contains(testing::EndsWith(" 0>0"))));
  EXPECT_TRUE(std::any_of(p.remarks.begin(), p.remarks.end(), [](const Remark& r) {
    return r.slug == "no-rows" && r.text.find("ranks 0, 2 over ep") != std::string::npos;
  }));
}

// moe_router_dtype fp32: weights, and the terms of the ranks of an expert, are twice as wide.
TEST(MegatronDispatcher, SendsWeightsInTheTypeOfTheRouter) {
  const auto lines = [&](const Plan& plan, const std::vector<std::string>& changes) {
    return sent(predict(small(), plan, changes), Phase::forward, "layers.0.moe");
  };
  // 1024 tokens of each rank of tp, 2 rows each, 1024 wide.
  EXPECT_THAT(lines(split(2, 2, 2, 2), {"router_dtype=float32"}),
              ElementsAre("ep-etp all_gather 64>256", "ep all_to_all 4194304>4194304",
                          "ep all_to_all 8192>8192", "etp all_gather 4194304>8388608",
                          "etp all_gather 8192>16384", "etp reduce_scatter 16777216>8388608",
                          "ep all_to_all 4194304>4194304"));
  EXPECT_THAT(lines(split(2, 2, 2, 2), {}), Contains("etp reduce_scatter 8388608>4194304"));
  EXPECT_THAT(lines(split(1, 2, 2, 1), {"moe_dispatcher=allgather", "router_dtype=float32"}),
              ElementsAre("ep all_gather 16384>32768", "ep all_gather 65536>131072",
                          "ep all_gather 4194304>8388608", "ep reduce_scatter 16777216>8388608"));
}

// token_dispatcher.py of 0.8.0: logits gathered over tp; tokens exchanged for parts of the hidden dim
// and back; rows travel in parts, are gathered before the experts and scattered behind them.
TEST(MegatronDispatcher, OfCore08ExchangesPartsOfRowsWithTensorParallelism) {
  Plan plan = split(2, 4, 2, 0);
  const Program p = predict(small(), plan, profile_of("megatron-0.8"));
  const std::string rows = "ep all_to_all 4194304>4194304", half = "tp all_to_all 2097152>2097152";
  EXPECT_THAT(sent(p, Phase::forward, "layers.0.moe"),
              ElementsAre("tp all_gather 16384>32768", "ep all_gather 64>128", half, rows,
                          "tp all_gather 4194304>8388608", "tp reduce_scatter 8388608>4194304",
                          rows, half));
  EXPECT_THAT(
      sent(p, Phase::backward, "layers.0.moe"),
      ElementsAre(half, rows, "tp all_gather 4194304>8388608", "tp reduce_scatter 8388608>4194304",
                  rows, half, "tp reduce_scatter 32768>16384"));
  plan.etp = 1;
  EXPECT_THAT(refusals(small(), plan, profile_of("megatron-0.8")),
              Contains(HasSubstr("leave it out")));
}

TEST(MegatronDispatcher, TellsNobodyCountsThatEverybodyKnows) {
  Plan plan = split(1, 4, 2, 1);
  EXPECT_THAT(calls(predict(small(), plan)), Contains(HasSubstr("counts")));
  EXPECT_THAT(calls(predict(small(), plan, {"expert_capacity=1"})), Each(Not(HasSubstr("counts"))));
}

// Tokens go to all ranks that share the experts, and each takes its rows.
TEST(MegatronDispatcher, ThatGathersSendsTokensInsteadOfRows) {
  const Architecture a = small();
  struct {
    Plan plan;
    const char* group;
    int64_t ranks, tokens;
  } const rows[] = {{split(1, 4, 2, 1), "ep", 2, 2048},
                    {split(2, 2, 2, 2), "tp_ep", 4, 1024},
                    {split(2, 2, 1, 2), "etp", 2, 1024},
                    {split(2, 2, 2, 1), "ep", 2, 1024}};
  for (const auto& row : rows) {
    const Program p = predict(a, row.plan, {"moe_dispatcher=allgather"});
    const auto gather = [&](int64_t bytes) {
      return fmt::format("{} all_gather {}>{}", row.group, bytes, row.ranks * bytes);
    };
    const auto scatter = [&](int64_t bytes) {
      return fmt::format("{} reduce_scatter {}>{}", row.group, row.ranks * bytes, bytes);
    };
    const int64_t map = row.tokens * 8, weights = map * 2, tokens = row.tokens * 2048;
    EXPECT_THAT(sent(p, Phase::forward, "layers.0.moe"),
                ElementsAre(gather(map), gather(weights), gather(tokens), scatter(tokens)));
    EXPECT_THAT(sent(p, Phase::backward, "layers.0.moe"),
                ElementsAre(gather(tokens), scatter(tokens), scatter(weights)));
    EXPECT_THAT(after(p), ElementsAreArray(after(predict(a, row.plan))));
  }
}

TEST(MegatronDispatcher, ThatGathersAmongOneRankSendsNothing) {
  const Program p = predict(small(), split(1, 2, 1, 1), {"moe_dispatcher=allgather"});
  EXPECT_THAT(sent(p, Phase::forward, "layers.0.moe"), ElementsAre());
  EXPECT_THAT(sent(p, Phase::backward, "layers.0.moe"), ElementsAre());
}

TEST(MegatronDispatcher, OfOtherKernelsIsRefused) {
  Profile profile = find_profile("megatron").value();
  ASSERT_FALSE(profile.set("moe_dispatcher=flex"));
  Diagnostics sink("config.json");
  EXPECT_FALSE(build_transformer(small(), split(1, 2, 2, 1), profile, sink));
  ASSERT_EQ(sink.list().size(), 1u);
  EXPECT_THAT(to_string(sink.list().at(0), sink.file()), HasSubstr("DeepEP"));
}

// What is sent to balance the experts of the first layer.
std::vector<std::string> balancing(const Plan& plan, const Profile& profile) {
  std::vector<std::string> lines = calls(predict(small(), plan, profile));
  std::erase_if(lines, [](const std::string& l) { return !l.starts_with("layers.0.moe.balance"); });
  return lines;
}

TEST(MegatronBalancing, AddsUpTokensOfASampleOfEachSampleOrOfAllRanks) {
  Plan plan = split(2, 2, 2, 1);
  plan.micro_batch = 3;
  const auto balance = [&](const char* value) {
    return balancing(plan, profile_of("megatron", {std::string("moe_balancing=") + value}));
  };
  EXPECT_THAT(balance("none"), ElementsAre());
  EXPECT_THAT(balance("aux_loss"), ElementsAre("layers.0.moe.balance tp all_reduce 64>64"));
  EXPECT_THAT(balance("seq_aux_loss"), ElementsAre("layers.0.moe.balance tp all_reduce 192>192"));
  EXPECT_THAT(balance("global_aux_loss"),
              ElementsAre("layers.0.moe.balance dp-tp all_reduce 64>64"));
}

// Ranks of tp have gathered their logits: token_dispatcher.py of 0.8 adds up over cp alone.
TEST(MegatronBalancing, OfCore08IsOverContextRanksAlone) {
  const Profile profile = profile_of("megatron-0.8", {"moe_balancing=aux_loss"});
  Plan plan = split(2, 2, 2, 2);
  EXPECT_THAT(balancing(plan, profile), ElementsAre());
  plan.cp = 2;
  EXPECT_THAT(balancing(plan, profile), ElementsAre("layers.0.moe.balance cp all_reduce 64>64"));
}

// Megatron refuses several messages between the same two ranks in one batch.
TEST(MegatronPipeline, OfTwoRanksAndChunksOverlapsItsMessages) {
  Plan plan = plan_of(1, 16, false);
  plan.pp = plan.vpp = 2;
  plan.global_batch = 8;
  EXPECT_FALSE(predict(dense(4, 64, 8), plan).batched_p2p);
  EXPECT_THROW(predict(dense(4, 64, 8), plan, {"interleaved_p2p=batched"}), UserError);
}

// The linear that gathers its input again reduces its gradient at once.
// moe_layer.py: up to 0.12 behind the routed ones, 0.13 and 0.14 between dispatch and experts, then
// before the router; shared_experts.py, pre_forward_comm and post_forward_comm: beside the exchanges,
// with one gather, whose result is kept.
TEST(MegatronSharedExperts, RunWhereTheVersionHasThem) {
  const std::string gather = "tp all_gather 2097152>4194304";
  const std::string scatter = "tp reduce_scatter 4194304>2097152";
  const std::string counts = "ep all_gather 64>128", weights = "ep all_to_all 4096>4096";
  const std::string rows = "ep all_to_all 4194304>4194304";
  using Lines = std::vector<std::string>;
  const std::map<std::string, std::pair<Lines, Lines>> expected{
      {"before",
       {{gather, scatter, counts, rows, weights, rows},
        {rows, weights, rows, gather, gather, scatter}}},
      {"between",
       {{counts, rows, weights, gather, scatter, rows},
        {rows, gather, gather, scatter, weights, rows}}},
      {"behind",
       {{counts, rows, weights, rows, gather, scatter},
        {gather, gather, scatter, rows, weights, rows}}},
      {"overlapped",
       {{counts, gather, rows, weights, rows, scatter}, {gather, rows, weights, rows, scatter}}}};
  for (const auto& [when, lines] : expected) {
    const Program p = predict(small(512), split(2, 2, 2, 1), {"shared_experts=" + when});
    EXPECT_EQ(sent(p, Phase::forward, "layers.0.moe"), lines.first) << when;
    EXPECT_EQ(sent(p, Phase::backward, "layers.0.moe"), lines.second) << when;
  }
  EXPECT_EQ(sent(predict(small(512), split(2, 2, 2, 1)), Phase::forward, "layers.0.moe"),
            expected.at("before").first);
}

// multi_latent_attention.py: k_pos_emb is gathered before the latents go up.
TEST(MegatronLatentAttention, GathersTheSharedRotationFirstAndReducesItLast) {
  Architecture a = dense(1, 1024, 16);
  for (const int64_t q_rank : {384, 0}) {
    a.latent = LatentAttention{q_rank, 128, 32, 64, 64};
    const int64_t q = 1024 * (q_rank ? q_rank : 1024) * 2, kv = 1024 * 128 * 2, k = 1024 * 32 * 2;
    const auto gather = [](int64_t n) { return fmt::format("tp all_gather {}>{}", n, 2 * n); };
    const auto scatter = [](int64_t n) { return fmt::format("tp reduce_scatter {}>{}", 2 * n, n); };
    const Program p = predict(a, split(2, 1, 1, 0));
    EXPECT_THAT(sent(p, Phase::forward, "layers.0.attn"),
                ElementsAre(gather(k), gather(q), gather(kv), scatter(1024 * 2048)));
    EXPECT_THAT(sent(p, Phase::backward, "layers.0.attn"),
                ElementsAre(gather(1024 * 2048), gather(kv), scatter(kv), gather(q), scatter(q),
                            scatter(k)));
  }
}

}  // namespace
}  // namespace s2t
