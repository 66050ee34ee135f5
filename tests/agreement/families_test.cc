// A small model of every family whose step differs from a llama's, under PyTorch DDP and under the
// frameworks that split it: each runs as it is predicted, and computes what the unsharded model
// computes.
#include <gtest/gtest.h>

#include "analyzer/io/hf_config.h"
#include "analyzer/io/transformer.h"
#include "tests/agreement/on_host.h"

namespace s2t {
namespace {

constexpr const char* kGemma3 = R"({"model_type": "gemma3_text", "hidden_size": 32,
    "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "num_hidden_layers": 2, "vocab_size": 64})";
constexpr const char* kGemma2 = R"({"model_type": "gemma2", "hidden_size": 32,
    "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "num_hidden_layers": 2, "vocab_size": 64})";
constexpr const char* kGlm4 = R"({"model_type": "glm4", "hidden_size": 32, "head_dim": 8,
    "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
    "attention_bias": true, "num_hidden_layers": 2, "vocab_size": 64})";
constexpr const char* kOlmo2 = R"({"model_type": "olmo2", "hidden_size": 32,
    "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 64})";
constexpr const char* kGptNeoX = R"({"model_type": "gpt_neox", "hidden_size": 32,
    "intermediate_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 64})";
constexpr const char* kBloom = R"({"model_type": "bloom", "hidden_size": 32, "n_head": 4,
    "n_layer": 2, "vocab_size": 64})";
constexpr const char* kFalcon40 = R"({"model_type": "falcon", "hidden_size": 32,
    "num_attention_heads": 4, "num_kv_heads": 2, "new_decoder_architecture": true,
    "num_hidden_layers": 2, "vocab_size": 64})";
constexpr const char* kFalcon7 = R"({"model_type": "falcon", "hidden_size": 32,
    "num_attention_heads": 4, "multi_query": false, "num_hidden_layers": 2, "vocab_size": 64})";
constexpr const char* kFalconRw = R"({"model_type": "falcon", "hidden_size": 32, "alibi": true,
    "num_attention_heads": 4, "multi_query": false, "parallel_attn": false, "bias": true,
    "num_hidden_layers": 2, "vocab_size": 64})";
constexpr const char* kOpt = R"({"model_type": "opt", "hidden_size": 32, "ffn_dim": 64,
    "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 64,
    "max_position_embeddings": 14})";
constexpr const char* kDbrx = R"({"model_type": "dbrx", "d_model": 32, "n_heads": 4, "n_layers": 2,
    "attn_config": {"kv_n_heads": 2}, "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4,
    "moe_top_k": 2}, "vocab_size": 64})";
constexpr const char* kGptOss = R"({"model_type": "gpt_oss", "hidden_size": 32, "head_dim": 8,
    "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 2, "num_local_experts": 4, "num_experts_per_tok": 2, "vocab_size": 64})";
constexpr const char* kQwen2Moe = R"({"model_type": "qwen2_moe", "hidden_size": 32,
    "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 2, "num_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 24, "shared_expert_intermediate_size": 16, "vocab_size": 64})";
constexpr const char* kQwen3 = R"({"model_type": "qwen3", "hidden_size": 32, "head_dim": 8,
    "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 2, "vocab_size": 64})";
constexpr const char* kDeepSeekV2 = R"({"model_type": "deepseek_v2", "hidden_size": 32,
    "intermediate_size": 48, "moe_intermediate_size": 16, "num_attention_heads": 4,
    "num_hidden_layers": 2, "vocab_size": 64, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "n_shared_experts": 2, "first_k_dense_replace": 1, "q_lora_rank": null, "kv_lora_rank": 16,
    "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8})";
constexpr const char* kBert = R"({"model_type": "bert", "hidden_size": 32,
    "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 64,
    "max_position_embeddings": 16})";
constexpr const char* kT5 = R"({"model_type": "t5", "d_model": 32, "d_ff": 48, "d_kv": 8,
    "num_heads": 4, "num_layers": 2, "vocab_size": 64, "relative_attention_num_buckets": 8})";
constexpr const char* kT5Gated = R"({"model_type": "t5", "d_model": 32, "d_ff": 48, "d_kv": 8,
    "num_heads": 4, "num_layers": 1, "num_decoder_layers": 2, "vocab_size": 64,
    "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false})";

struct Job {
  const char* name;
  const char* config;
  const char* profile;
  void (*set)(Plan&);
};

void alone(Plan& p) {
  p.dp = 2;
}
void split(Plan& p) {
  p.tp = p.dp = 2;
}
void split_tokens(Plan& p) {
  p.tp = p.dp = 2, p.sp = true;
}
void three_ways(Plan& p) {
  p.tp = p.pp = p.dp = 2, p.sp = true;
}
void with_experts(Plan& p) {
  p.tp = 2, p.dp = 2, p.ep = 4, p.etp = 1, p.sp = true;
}
void experts_only(Plan& p) {
  p.dp = p.ep = 2;
}
void recomputed(Plan& p) {
  p.tp = p.dp = 2, p.sp = true, p.recompute = Recompute::full;
}
void sharded(Plan& p) {
  p.dp = 2, p.zero = 1;
}

// BERT's heads are registered behind the table that is shared, which closes their bucket.
void stages_sharded(Plan& p) {
  p.pp = p.dp = 2, p.zero = 1;
}
// What cancels in 16 bits is far off, and as far in the unsharded model.
void rounded(Plan& p) {
  p.dp = 2, p.dtype = DType::bf16;
}
void split_and_rounded(Plan& p) {
  split(p), p.dtype = DType::bf16;
}

class Family : public testing::TestWithParam<Job> {};

TEST_P(Family, RunsAsPredicted) {
  const Job& job = GetParam();
  Diagnostics sink(job.name);
  Plan plan;
  plan.seq = 8;
  plan.dtype = DType::f32;
  job.set(plan);
  plan.global_batch = 2 * plan.dp;
  const auto model = build_transformer(parse_hf_config(job.config, job.name), plan,
                                       find_profile(job.profile).value(), sink);
  sink.throw_if_any();
  expect_as_predicted(*model);
}

INSTANTIATE_TEST_SUITE_P(
    Small, Family,
    testing::Values(
        Job{"gemma3_ddp", kGemma3, "ddp", alone}, Job{"gemma3", kGemma3, "megatron", three_ways},
        Job{"gemma2_ddp", kGemma2, "ddp", alone}, Job{"gemma2", kGemma2, "megatron", split},
        Job{"glm4_ddp", kGlm4, "ddp", alone}, Job{"glm4", kGlm4, "megatron", three_ways},
        Job{"olmo2_ddp", kOlmo2, "ddp", alone}, Job{"olmo2_zero1", kOlmo2, "deepspeed", sharded},
        Job{"gpt_neox_ddp", kGptNeoX, "ddp", alone},
        Job{"gpt_neox", kGptNeoX, "megatron", three_ways},
        Job{"gpt_neox_one_reduction", kGptNeoX, "deepspeed", split},
        Job{"bloom_ddp", kBloom, "ddp", alone}, Job{"bloom", kBloom, "megatron", three_ways},
        Job{"falcon40_ddp", kFalcon40, "ddp", alone},
        Job{"falcon40", kFalcon40, "megatron", three_ways},
        Job{"falcon7_ddp", kFalcon7, "ddp", alone},
        Job{"falcon7", kFalcon7, "megatron", split_tokens},
        Job{"falcon7_one_reduction", kFalcon7, "deepspeed", split},
        Job{"falcon_rw_ddp", kFalconRw, "ddp", alone},
        Job{"falcon_rw", kFalconRw, "megatron", split_tokens}, Job{"opt_ddp", kOpt, "ddp", alone},
        Job{"opt", kOpt, "megatron", three_ways}, Job{"dbrx_ddp", kDbrx, "ddp", alone},
        Job{"dbrx", kDbrx, "megatron", with_experts},
        Job{"dbrx_ep", kDbrx, "deepspeed", experts_only}, Job{"gpt_oss_ddp", kGptOss, "ddp", alone},
        Job{"gpt_oss", kGptOss, "megatron", with_experts},
        Job{"gpt_oss_ep", kGptOss, "torchtitan", experts_only},
        Job{"qwen2_moe_ddp", kQwen2Moe, "ddp", alone},
        Job{"qwen2_moe", kQwen2Moe, "megatron", with_experts},
        Job{"qwen3_ddp", kQwen3, "ddp", alone}, Job{"qwen3", kQwen3, "megatron", split},
        Job{"qwen3_fsdp", kQwen3, "torchtitan", split},
        Job{"deepseek_v2_ddp", kDeepSeekV2, "ddp", alone},
        Job{"deepseek_v2", kDeepSeekV2, "megatron", with_experts},
        Job{"bert_ddp", kBert, "ddp", alone}, Job{"bert", kBert, "megatron", three_ways},
        Job{"bert_recomputed", kBert, "megatron", recomputed},
        Job{"bert_sharded_optimizer", kBert, "megatron", stages_sharded},
        Job{"bert_zero1", kBert, "deepspeed", sharded}, Job{"t5_ddp", kT5, "ddp", alone},
        Job{"t5", kT5, "megatron", split_tokens}, Job{"t5_recomputed", kT5, "megatron", recomputed},
        Job{"t5_gated", kT5Gated, "megatron", split}, Job{"opt_bf16", kOpt, "ddp", rounded},
        Job{"bert_bf16", kBert, "ddp", rounded}, Job{"t5_bf16", kT5, "megatron", split_and_rounded},
        Job{"gemma3_bf16", kGemma3, "megatron", split_and_rounded},
        Job{"t5_zero1", kT5, "deepspeed", sharded}),
    [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace s2t
