// What the steps of families that are no llama consist of: their parameters are those counted, and
// their blocks reduce where the frameworks reduce.
#include <gmock/gmock.h>

#include "analyzer/io/hf_config.h"
#include "analyzer/io/hf_families.h"
#include "tests/analyzer/io/every_key.h"
#include "tests/analyzer/io/predicted.h"

namespace s2t {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

Model model_under(const char* profile, const Architecture& a, const Plan& p) {
  return model_of(a, p, profile_of(profile));
}

Count parameters_of(const Model& model) {
  Count sum = 0;
  for (const TensorDecl& t : model.tensors) {
    if (!t.parameter) continue;
    Count n = 1;
    for (const DimDecl& d : t.shape) n *= static_cast<Count>(d.size);
    sum += n;
  }
  return sum;
}

// The numbers that balance experts are stored, and no gradient moves them.
Count unmoved(const Architecture& a) {
  if (!a.experts || !a.experts->balanced_by_bias) return 0;
  return static_cast<Count>((a.layers - a.experts->first_dense) * a.experts->experts);
}

TEST(EveryFamily, HasTheParametersThatAreCounted) {
  for (const ConfigFamily& family : config_families()) {
    const Architecture a = parse_hf_config(config_of(family.type));
    EXPECT_EQ(parameters_of(model_under("ddp", a, plan_of(1, 16, false))) + unmoved(a),
              parameter_count(a) + pretraining_head_count(a))
        << family.type;
  }
}

TEST(EveryFamily, HasAStepUnderDdpMegatronAndDeepSpeed) {
  for (const ConfigFamily& family : config_families()) {
    const Architecture a = parse_hf_config(config_of(family.type));
    for (const char* profile : {"ddp", "megatron", "deepspeed"}) {
      Plan p = plan_of(1, 16, false);
      p.dp = 2;
      int events = 0;
      for_each_kept_event(analyze(model_under(profile, a, p)), [&](const Event&) { ++events; });
      EXPECT_GT(events, 0) << family.type << " under " << profile;
    }
  }
}

// One layer, 64 wide, 4 tokens, bfloat16: S = 512.
Architecture one_layer(std::string_view family) {
  Architecture a = parse_hf_config(config_of(family));
  a.layers = 1;
  return a;
}

TEST(ParallelBlocks, GatherAndReduceTwiceUnderMegatron) {
  for (const char* family : {"gpt_neox", "falcon"}) {
    Architecture a = one_layer(family);
    a.kv_heads = 4;
    const Program program = predict(a, plan_of(2, 4, true));
    EXPECT_EQ(of(program, Phase::forward, "layers"),
              (Counts{{"tp all_gather 256>512", 2}, {"tp reduce_scatter 512>256", 2}}));
    EXPECT_EQ(of(program, Phase::backward, "layers"),
              (Counts{{"tp all_gather 256>512", 4}, {"tp reduce_scatter 512>256", 2}}));
  }
}

// GPT-NeoX: "we can do a single allreduce after we add mlp / attn outputs".
TEST(ParallelBlocks, ReduceTheirSumOnceUnderDeepSpeed) {
  const Program program =
      analyze(model_under("deepspeed", one_layer("gpt_neox"), plan_of(2, 4, false)));
  EXPECT_EQ(of(program, Phase::forward, "layers"), (Counts{{"tp all_reduce 512>512", 1}}));
  EXPECT_EQ(of(program, Phase::backward, "layers"), (Counts{{"tp all_reduce 512>512", 2}}));
}

// The gradient of the sum is gathered once for both.
TEST(ParallelBlocks, UnderSequenceParallelismMayScatterTheirSum) {
  const Program program =
      predict(one_layer("gpt_neox"), plan_of(2, 4, true), {"parallel_blocks=one_reduction"});
  EXPECT_EQ(of(program, Phase::forward, "layers"),
            (Counts{{"tp all_gather 256>512", 2}, {"tp reduce_scatter 512>256", 1}}));
  EXPECT_EQ(of(program, Phase::backward, "layers"),
            (Counts{{"tp all_gather 256>512", 3}, {"tp reduce_scatter 512>256", 2}}));
}

TEST(NormsBehindBlocks, ChangeNothingButTheGradientsOfNorms) {
  const Program program = predict(one_layer("gemma2"), plan_of(2, 4, true));
  EXPECT_EQ(of(program, Phase::forward, "layers"),
            (Counts{{"tp all_gather 256>512", 2}, {"tp reduce_scatter 512>256", 2}}));
  // Four norms of the layer and the last one, 64 float32 each.
  EXPECT_THAT(after(program), ElementsAre("tp all_reduce 1280>1280"));
}

TEST(GptOss, ReducesNothingForSinksWhoseHeadsAreSplit) {
  Architecture a = one_layer("gpt_oss");
  Plan p = plan_of(2, 4, true);
  p.etp = 1;
  p.ep = 2;
  const Model model = model_of(a, p);
  const Program program = analyze(model);
  // Two norms, one at the end, the row bias, the router and its bias: float32.
  EXPECT_THAT(after(program), ElementsAre("tp all_reduce 2064>2064"));
}

// Positions and segments are added to whole tokens, which are split then.
TEST(Bert, ReducesTheEmbeddingWholeAndTrainsTwoHeads) {
  const Program program = predict(one_layer("bert"), plan_of(2, 4, true));
  EXPECT_EQ(of(program, Phase::forward, "embed"), (Counts{{"tp all_reduce 512>512", 1}}));
  EXPECT_EQ(of(program, Phase::backward, "embed"), (Counts{{"tp all_gather 256>512", 1}}));
  // The logits gather once more for their weights; the pooler gathers the first token with the
  // rest, and cuts its gradient.
  EXPECT_EQ(of(program, Phase::forward, "head"), (Counts{{"tp all_gather 256>512", 2}}));
  EXPECT_EQ(of(program, Phase::backward, "head"),
            (Counts{{"tp all_gather 256>512", 1}, {"tp reduce_scatter 512>256", 1}}));
  EXPECT_THAT(calls(program), Contains("batch.numbers tp broadcast 168>168"));
}

TEST(T5, GathersTheMemoryInEveryLayerAndTheGradientOfPositionsOncePerStack) {
  Architecture a = one_layer("t5");
  a.encoder_layers = 1;
  a.layers = 2;
  a.head_dim = 16;
  const Program program = predict(a, plan_of(2, 4, true));
  EXPECT_EQ(of(program, Phase::forward, "layers.1.cross"),
            (Counts{{"tp all_gather 256>512", 2}, {"tp reduce_scatter 512>256", 1}}));
  EXPECT_EQ(of(program, Phase::backward, "layers.1.cross"),
            (Counts{{"tp all_gather 256>512", 3}, {"tp reduce_scatter 512>256", 2}}));
  // 4 x 4 scores of 2 and of 4 heads.
  const Counts backward = of(program, Phase::backward, "");
  EXPECT_EQ(backward.at("tp all_gather 64>128"), 2);
  EXPECT_THAT(calls(program), Contains("batch.numbers tp broadcast 192>192"));
}

TEST(T5, SplitsNoPipelineAndNoSample) {
  Plan p = plan_of(1, 16, false);
  p.pp = p.cp = 2;
  EXPECT_THAT(refusals(parse_hf_config(R"({"model_type": "t5", "d_model": 64, "d_ff": 96,
      "d_kv": 16, "num_heads": 4, "num_layers": 2, "vocab_size": 100})"),
                       p),
              testing::IsSupersetOf({HasSubstr("--pp: a pipeline through encoder and decoder"),
                                     HasSubstr("--cp: context parallelism of an encoder")}));
}

TEST(WhatAFrameworkDoesNotHave, IsRefusedWithWhoHasIt) {
  const auto refused = [&](const char* family, const char* profile, Plan p, const char* why) {
    Diagnostics sink(family);
    EXPECT_FALSE(
        build_transformer(parse_hf_config(config_of(family)), p, *find_profile(profile), sink));
    ASSERT_TRUE(sink.any()) << family;
    EXPECT_THAT(to_string(sink.list()[0], family), HasSubstr(why));
  };
  refused("glm4", "torchtitan", plan_of(1, 16, false), "norms elsewhere than before both blocks");
  refused("gpt_oss", "megatron-0.8", plan_of(1, 16, false), "attention sinks");
  refused("t5", "megatron-0.8", plan_of(1, 16, false), "relative positions");
  refused("olmo2", "megatron", plan_of(2, 16, false), "norms over all heads at once");
  refused("gpt_oss", "megatron", plan_of(2, 16, true), "experts with a bias");
}

}  // namespace
}  // namespace s2t
