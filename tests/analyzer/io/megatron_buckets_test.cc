// Megatron's gradient buffers, against its rule applied to its own list of parameters:
// distributed/param_and_grad_buffer.py, distributed_data_parallel.py.
#include <gmock/gmock.h>

#include <numeric>

#include "tests/analyzer/io/predicted.h"

namespace s2t {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

// Elements of the gradient reductions inside the backward of the first stage, and their axes.
std::vector<Count> buckets(const Program& p, const std::string& axes = "dp") {
  std::vector<Count> sizes;
  for (const Segment::Item& item : p.stages.at(0).backward.items)
    if (item.event.phase == Phase::grad_sync && p.families[item.event.family].name == axes) {
      EXPECT_EQ(item.when, Segment::When::last);
      sizes.push_back(item.event.volume.input_bytes / size_of(item.event.dtype));
    }
  return sizes;
}

struct Rule {
  int64_t limit = 40'000'000;
  int64_t parameter_multiple = 64, bucket_multiple = 128;
};
std::vector<Count> filled(const std::vector<int64_t>& registered, const Rule& rule) {
  std::vector<Count> sizes;
  int64_t end = 0;
  for (size_t i = registered.size(); i-- > 0;) {
    const auto up = [](int64_t n, int64_t multiple) {
      return (n + multiple - 1) / multiple * multiple;
    };
    end = up(end, rule.parameter_multiple) + registered[i];
    if (end < rule.limit && i > 0) continue;
    sizes.push_back(static_cast<Count>(up(end, rule.bucket_multiple)));
    end = 0;
  }
  return sizes;
}

Architecture llama3_8b() {
  Architecture a = dense(32, 4096, 32);
  a.kv_heads = 8;
  a.ffn = 14336;
  a.vocab = 128256;
  return a;
}

// What `tp` ranks hold of word_embeddings; per layer linear_proj, linear_qkv with its norm,
// linear_fc1 with its norm, linear_fc2; final_layernorm; output_layer.
std::vector<int64_t> llama3_8b_of(int64_t tp) {
  const int64_t h = 4096, kv = 1024, f = 14336, table = (tp == 1 ? 128256 : 129024) * h / tp;
  std::vector<int64_t> all{table};
  for (int layer = 0; layer < 32; ++layer)
    all.insert(all.end(), {h * h / tp, h, (h + 2 * kv) * h / tp, h, 2 * f * h / tp, f * h / tp});
  all.insert(all.end(), {h, table});
  return all;
}

TEST(MegatronBuckets, AreThoseOfItsFusedParameters) {
  for (const int64_t tp : {1, 8}) {
    Plan plan = plan_of(tp, 8192, false);
    plan.dp = 8;
    plan.zero = 1;
    const auto sizes = buckets(predict(llama3_8b(), plan, {"gradient_sync=overlapped"}));
    EXPECT_EQ(sizes, filled(llama3_8b_of(tp), {})) << tp;
    EXPECT_EQ(sizes.size(), tp == 1 ? 98u : 18u);
  }
}

TEST(MegatronBuckets, WithoutAShardedOptimizerAreNotPadded) {
  Plan plan = plan_of(8, 8192, false);
  plan.dp = 8;
  EXPECT_EQ(buckets(predict(llama3_8b(), plan, {"gradient_sync=overlapped"})),
            filled(llama3_8b_of(8), {40'000'000, 1, 1}));
}

// Attention registers linear_proj before linear_qkv, so that it is reduced behind it.
TEST(MegatronBuckets, FollowRegistrationNotTheBackward) {
  Plan plan = plan_of(1, 64, false);
  plan.dp = 2;
  Architecture a = dense(1, 64, 4);
  const Program p =
      predict(a, plan, {"gradient_sync=overlapped", "bucket_size=1", "attention_mask=none"});
  std::vector<std::string> members;
  for (const Segment::Item& item : p.stages.at(0).backward.items)
    if (item.event.phase == Phase::grad_sync)
      members.push_back(fmt::format("{}+{}", item.event.members.at(0), item.event.members.size()));
  EXPECT_THAT(members, Contains("layers.0.attn.q.weight+3"));
  EXPECT_THAT(members, Contains("layers.0.mlp.gate.weight+2"));
  // With a limit that both reach together, they are one bucket that waits for the first.
  const Program two = predict(a, plan, {"gradient_sync=overlapped", "bucket_size=16384"});
  // The norm of linear_fc1, linear_qkv, its norm, linear_proj.
  EXPECT_EQ(buckets(two).at(3), 64u + 3 * 64 * 64 + 64 + 64 * 64);
}

TEST(MegatronBuckets, AreOfFortyMillionElementsOrMoreForManyReplicas) {
  Plan plan = plan_of(1, 128, false);
  plan.dp = 16;
  const auto limit = [&](const std::vector<std::string>& changes = {}) {
    std::vector<std::string> all{"gradient_sync=overlapped", "context_parallel=all_gather"};
    all.insert(all.end(), changes.begin(), changes.end());
    return *model_of(dense(1, 64, 4), plan, all).gradient_sync.bucket_bytes / 4;
  };
  EXPECT_EQ(limit(), 40'000'000);
  EXPECT_EQ(limit({"bucket_size=1000"}), 1000);
  plan.dp = 128;
  EXPECT_EQ(limit(), 128'000'000);
  plan.cp = 2;  // these ranks do not count
  EXPECT_EQ(limit(), 128'000'000);
}

TEST(MegatronBuckets, AreOneWithoutOverlap) {
  Plan plan = plan_of(1, 128, false);
  plan.dp = 16;
  EXPECT_EQ(after(predict(dense(4, 2048, 16), plan)).size(), 1u);
}

TEST(MegatronBuckets, OnLaterStagesAreOne) {
  Plan plan = plan_of(1, 128, false);
  plan.dp = plan.pp = 2;
  const Program p = predict(dense(4, 2048, 16), plan, {"gradient_sync=overlapped"});
  const auto reductions = [&](size_t stage) {
    return std::count_if(
        p.stages.at(stage).backward.items.begin(), p.stages.at(stage).backward.items.end(),
        [](const Segment::Item& item) { return item.event.phase == Phase::grad_sync; });
  };
  EXPECT_GT(reductions(0), 1);
  EXPECT_EQ(reductions(1), 1);
}

// 4 experts on 2 ranks of ep, 2 of dp for each.
std::pair<Architecture, Plan> with_experts() {
  Architecture a = dense(2, 64, 4);
  a.experts = Experts{4, 2, 128};
  Plan plan = plan_of(1, 64, false);
  plan.dp = 4;
  plan.ep = 2;
  plan.zero = 1;
  return {a, plan};
}

// 2 experts on a rank, each with linear_fc1 of 2 x 128 x 64 and linear_fc2 of 64 x 128.
TEST(MegatronBuckets, HoldEachExpertByItself) {
  const auto [a, plan] = with_experts();
  const auto sizes = [&](const char* order, int64_t limit) {
    return buckets(
        predict(a, plan, {"gradient_sync=overlapped", order, fmt::format("bucket_size={}", limit)}),
        "edp");
  };
  const int64_t fc1 = 2 * 128 * 64, fc2 = 64 * 128;
  std::vector<int64_t> one_by_one, grouped;
  for (int layer = 0; layer < 2; ++layer) {
    one_by_one.insert(one_by_one.end(), {fc1, fc2, fc1, fc2});
    grouped.insert(grouped.end(), {fc1, fc1, fc2, fc2});
  }
  for (const int64_t limit : {1, 10'000, 20'000, 30'000, 1'000'000}) {
    EXPECT_THAT(sizes("expert_parameters=one_by_one", limit),
                UnorderedElementsAreArray(filled(one_by_one, {limit})));
    EXPECT_THAT(sizes("expert_parameters=grouped", limit),
                UnorderedElementsAreArray(filled(grouped, {limit})));
  }
}

// gpt-oss: linear_fc1 with its bias, linear_fc2 with its bias.
TEST(MegatronBuckets, HoldBiasesOfExpertsBehindTheirWeights) {
  auto [a, plan] = with_experts();
  a.experts->bias = true;
  const int64_t fc1 = 2 * 128 * 64, b1 = 2 * 128, fc2 = 64 * 128, b2 = 64;
  std::vector<int64_t> one_by_one, grouped;
  for (int layer = 0; layer < 2; ++layer) {
    one_by_one.insert(one_by_one.end(), {fc1, b1, fc2, b2, fc1, b1, fc2, b2});
    grouped.insert(grouped.end(), {fc1, fc1, b1, b1, fc2, fc2, b2, b2});
  }
  for (const auto& [order, registered] : {std::pair("expert_parameters=one_by_one", one_by_one),
                                          std::pair("expert_parameters=grouped", grouped)})
    EXPECT_THAT(
        buckets(predict(a, plan, {"gradient_sync=overlapped", order, "bucket_size=100"}), "edp"),
        UnorderedElementsAreArray(filled(registered, {100})));
}

// Of the modules whose names begin with `prefix`, by the first of what is one.
std::vector<std::string> registered(const Model& m, const std::string& prefix) {
  std::vector<std::string> names;
  for (const RegisteredDecl& r : m.gradient_sync.registered)
    if (r.members[0].rfind(prefix, 0) == 0) names.push_back(r.members[0].substr(prefix.size()));
  return names;
}

TEST(MegatronBuckets, HoldNormsBehindABlockWithItsRowLinear) {
  Architecture a = dense(1, 64, 4);
  a.norms = NormPlace::around;
  const Model m = model_of(a, plan_of(1, 64, false));
  EXPECT_THAT(registered(m, "layers.0.attn."),
              ElementsAre("proj.weight", "post_norm.weight", "norm.weight", "q.weight"));
  EXPECT_THAT(registered(m, "layers.0.mlp."),
              ElementsAre("norm.weight", "gate.weight", "down.weight", "post_norm.weight"));
}

TEST(MegatronBuckets, HoldTheGateOfSharedExpertsBeforeThem) {
  auto [a, plan] = with_experts();
  a.experts->shared_ffn = 128;
  a.experts->shared_gate = true;
  EXPECT_THAT(registered(model_of(a, plan), "layers.0.moe.shared."),
              ElementsAre("scale.weight", "gate.weight", "down.weight"));
}

TEST(MegatronBuckets, OfExpertsComeBehindTheOthers) {
  const auto [a, plan] = with_experts();
  EXPECT_THAT(after(predict(a, plan, {"parameter_gathers=once"})),
              ElementsAre(HasSubstr("dp reduce_scatter"), HasSubstr("edp reduce_scatter"),
                          HasSubstr("dp all_gather"), HasSubstr("edp all_gather")));
}

// distrib_optimizer.py: each of two optimizers lets the model gather all its buckets.
TEST(MegatronParameters, OfModelsWithExpertsAreGatheredByEachOptimizer) {
  const auto [a, plan] = with_experts();
  std::vector<std::string> lines = after(predict(a, plan));
  lines.erase(lines.begin(), lines.begin() + 2);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("dp all_gather"), HasSubstr("edp all_gather"), lines[0],
                                 lines[1]));
  const auto gathers = [](const std::vector<std::string>& all) {
    return std::count_if(all.begin(), all.end(), [](const std::string& l) {
      return l.find("all_gather") != std::string::npos;
    });
  };
  EXPECT_EQ(gathers(after(predict(a, plan, profile_of("megatron-0.8")))), 2);
  Plan plain = plan_of(1, 64, false);
  plain.dp = 2;
  plain.zero = 1;
  EXPECT_EQ(gathers(after(predict(dense(2, 64, 4), plain))), 1);
}

// --overlap-param-gather: where a bucket is used first, the next one is sent for.
TEST(MegatronParameters, AreGatheredBeforeUseOneBucketAhead) {
  Plan plan = plan_of(1, 64, false);
  plan.dp = plan.pp = 2;
  plan.zero = 1;
  plan.global_batch = 4;
  const Program p = predict(dense(4, 64, 4), plan,
                            {"gradient_sync=overlapped", "bucket_size=20000",
                             "parameter_gathers=before_use", "attention_mask=none"});
  std::vector<Count> gathered;
  for (const Segment::Item& item : p.stages.at(0).forward.items) {
    if (item.event.op != Collective::all_gather) continue;
    EXPECT_EQ(item.when, Segment::When::first);
    gathered.push_back(item.event.volume.output_bytes / 2);
  }
  std::vector<Count> reduced = buckets(p);
  std::reverse(reduced.begin(), reduced.end());
  EXPECT_EQ(gathered, reduced);
  EXPECT_GT(gathered.size(), 2u);
  EXPECT_THAT(after(p), Each(testing::Not(HasSubstr("all_gather"))));
  plan.zero = 0;
  EXPECT_THAT(refusals(dense(4, 64, 4), plan, {"parameter_gathers=before_use"}),
              ElementsAre(HasSubstr("--zero 1")));
}

TEST(MegatronBuckets, ArePaddedForTheRanksThatShareThem) {
  Architecture a = dense(1, 64, 4);
  a.ffn = 129;
  Plan plan = plan_of(1, 128, false);
  plan.dp = 3;
  plan.zero = 1;
  const Count n = parameter_count(a), padded = (n + 383) / 384 * 384;
  ASSERT_NE(n, padded);
  EXPECT_THAT(after(predict(a, plan)),
              Contains(fmt::format("dp reduce_scatter {}>{}", 4 * padded, 4 * padded / 3)));
}

// A parameter of 65 elements is followed by 63 that are nobody's.
TEST(MegatronBuckets, LetParametersBeginAtMultiplesOfSixtyFour) {
  Architecture a = gpt(1, 65, 5);
  a.ffn = 65;
  a.vocab = 128;
  a.position_rows = 64;
  a.tied = false;
  Plan plan = plan_of(1, 16, false);
  plan.dp = 2;
  plan.zero = 1;
  const int64_t h = 65, table = 128 * h;
  const std::vector<int64_t> registered{table, 64 * h,                    // embeddings
                                        h * h, h,                         // linear_proj
                                        h,     h,      3 * h * h, 3 * h,  // linear_qkv
                                        h,     h,      h * h,     h,      // linear_fc1
                                        h * h, h,                         // linear_fc2
                                        h,     h,      table};            // final norm, output
  EXPECT_THAT(
      after(predict(a, plan)),
      Contains(fmt::format("dp reduce_scatter {}>{}", 4 * filled(registered, {1LL << 40})[0],
                           2 * filled(registered, {1LL << 40})[0])));
}

// Norms of all chunks of a rank are one call.
TEST(MegatronNorms, OfAllChunksAreReducedTogether) {
  Plan plan = plan_of(2, 16, true);
  plan.pp = plan.vpp = 2;
  plan.global_batch = 4;
  std::vector<std::string> lines = after(predict(dense(4, 64, 4), plan));
  EXPECT_THAT(lines, Each(HasSubstr("tp all_reduce")));
  EXPECT_EQ(lines.size(), 2u);  // one on each pipeline rank
}

}  // namespace
}  // namespace s2t
