// Shrunken published models, as a framework would run them on eight ranks: each runs as it is
// predicted, and computes what the unsharded model computes.
#include <gtest/gtest.h>

#include "analyzer/io/hf_config.h"
#include "analyzer/io/transformer.h"
#include "tests/agreement/on_host.h"

namespace s2t {
namespace {

constexpr const char* kLlama = R"({"model_type": "llama", "hidden_size": 64,
    "intermediate_size": 128, "num_attention_heads": 8, "num_key_value_heads": 4,
    "num_hidden_layers": 2, "vocab_size": 256})";
constexpr const char* kMixtral = R"({"model_type": "mixtral", "hidden_size": 64,
    "intermediate_size": 128, "num_attention_heads": 8, "num_key_value_heads": 4,
    "num_hidden_layers": 2, "vocab_size": 256, "num_local_experts": 4, "num_experts_per_tok": 2})";
constexpr const char* kGpt2 = R"({"model_type": "gpt2", "n_embd": 64, "n_head": 8, "n_layer": 2,
    "vocab_size": 256, "n_positions": 32})";
constexpr const char* kDeepSeek = R"({"model_type": "deepseek_v3", "hidden_size": 64,
    "intermediate_size": 128, "moe_intermediate_size": 32, "num_attention_heads": 4,
    "num_hidden_layers": 2, "vocab_size": 256, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "n_shared_experts": 1, "first_k_dense_replace": 1, "q_lora_rank": 32, "kv_lora_rank": 16,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16})";

struct Job {
  const char* name;
  const char* config;
  const char* profile;
  void (*set)(Plan&);
  std::vector<std::string> changes = {};
};

Plan eight_ranks() {
  Plan plan;
  plan.seq = 16;
  plan.world = 8;
  plan.global_batch = 8;
  return plan;
}

class PublishedModel : public testing::TestWithParam<Job> {};

TEST_P(PublishedModel, RunsAsPredicted) {
  const Job& job = GetParam();
  Profile profile = find_profile(job.profile).value();
  Diagnostics sink(job.name);
  for (const std::string& change : job.changes)
    if (const auto wrong = profile.set(change)) sink.add(*wrong);
  Plan plan = eight_ranks();
  job.set(plan);
  const auto model = build_transformer(parse_hf_config(job.config, job.name), plan, profile, sink);
  sink.throw_if_any();
  EXPECT_EQ(expect_as_predicted(*model).observed.size(), 8u);
}

// Tensor, sequence, pipeline and data parallelism, two each.
void three_ways(Plan& plan) {
  plan.tp = plan.pp = 2;
  plan.sp = true;
}

INSTANTIATE_TEST_SUITE_P(Megatron, PublishedModel,
                         testing::Values(Job{"llama", kLlama, "megatron", three_ways},
                                         Job{"llama_recomputed", kLlama, "megatron",
                                             [](Plan& p) {
                                               three_ways(p);
                                               p.recompute = Recompute::full;
                                             }},
                                         Job{"llama_sharded_optimizer",
                                             kLlama,
                                             "megatron",
                                             [](Plan& p) {
                                               p.tp = p.pp = 2;
                                               p.zero = 1;
                                             },
                                             {"gradient_sync=overlapped", "cross_entropy=fused"}},
                                         Job{"llama_long",
                                             kLlama,
                                             "megatron",
                                             [](Plan& p) {
                                               p.tp = p.cp = 2;
                                               p.sp = true;
                                               p.recompute = Recompute::selective;
                                             },
                                             {"context_parallel=all_gather"}},
                                         Job{"llama_ring", kLlama, "megatron",
                                             [](Plan& p) {
                                               p.cp = 4;
                                               p.pp = 2;
                                               p.recompute = Recompute::full;
                                             }},
                                         Job{"llama_ring_of_two", kLlama, "megatron",
                                             [](Plan& p) {
                                               p.tp = p.cp = 2;
                                               p.sp = true;
                                               p.recompute = Recompute::selective;
                                             }},
                                         Job{"deepseek_ring", kDeepSeek, "megatron",
                                             [](Plan& p) {
                                               p.cp = 4;
                                               p.ep = 4;
                                             }},
                                         Job{"llama_ulysses",
                                             kLlama,
                                             "megatron",
                                             [](Plan& p) { p.cp = p.pp = 2; },
                                             {"context_parallel=a2a"}},
                                         Job{"llama_ulysses_tensor_parallel",
                                             kLlama,
                                             "megatron",
                                             [](Plan& p) {
                                               p.tp = p.cp = p.dp = 2;
                                               p.sp = true;
                                               p.micro_batch = 2;
                                               p.recompute = Recompute::selective;
                                             },
                                             {"context_parallel=a2a"}},
                                         Job{"llama_interleaved",
                                             R"({"model_type": "llama", "hidden_size": 32,
            "intermediate_size": 64, "num_attention_heads": 4, "num_hidden_layers": 4,
            "vocab_size": 256})",
                                             "megatron",
                                             [](Plan& p) {
                                               p.tp = p.pp = p.vpp = 2;
                                               p.sp = true;
                                             }},
                                         Job{"gpt2", kGpt2, "megatron", three_ways},
                                         Job{"gpt2_sharded_optimizer", kGpt2, "megatron",
                                             [](Plan& p) {
                                               three_ways(p);
                                               p.zero = 1;
                                             }},
                                         Job{"mixtral", kMixtral, "megatron",
                                             [](Plan& p) {
                                               p.tp = 2;
                                               p.ep = 4;
                                               p.etp = 1;
                                               p.sp = true;
                                             }},
                                         Job{"mixtral_split_experts",
                                             kMixtral,
                                             "megatron",
                                             [](Plan& p) {
                                               three_ways(p);
                                               p.ep = 2;
                                               p.recompute = Recompute::full;
                                             },
                                             {"moe_balancing=aux_loss"}},
                                         Job{"deepseek", kDeepSeek, "megatron",
                                             [](Plan& p) {
                                               three_ways(p);
                                               p.ep = 4;
                                               p.etp = 1;
                                             }}),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace s2t
