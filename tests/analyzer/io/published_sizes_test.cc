// What attention keeps of a token, as model cards and papers print it (DeepSeek, arXiv 2505.09343,
// table 1), against what ranks that share a sequence gather of it.
#include <gtest/gtest.h>

#include "analyzer/io/hf_config.h"
#include "tests/analyzer/io/predicted.h"

namespace s2t {
namespace {

constexpr const char* kLlama405B = R"({"model_type": "llama", "hidden_size": 16384,
    "intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128,
    "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": false})";
constexpr const char* kQwen72B = R"({"model_type": "qwen2", "hidden_size": 8192,
    "intermediate_size": 29568, "num_hidden_layers": 80, "num_attention_heads": 64,
    "num_key_value_heads": 8, "vocab_size": 152064, "tie_word_embeddings": false})";
constexpr const char* kDeepSeekV3 = R"({"model_type": "deepseek_v3", "hidden_size": 7168,
    "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_attention_heads": 128,
    "num_key_value_heads": 128, "num_hidden_layers": 61, "vocab_size": 129280,
    "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1,
    "first_k_dense_replace": 3, "q_lora_rank": 1536, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128})";

constexpr int64_t kSeq = 4096;

// Output bytes of the forward gathers of tensors whose names end in one of `ends`, per token.
Count gathered(const Program& p, const std::vector<std::string>& ends) {
  Count bytes = 0;
  for (const Stage& stage : p.stages)
    for (const Segment::Item& item : stage.forward.items)
      for (const std::string& end : ends)
        if (item.event.op == Collective::all_gather && item.event.tensor.ends_with(end))
          bytes += item.event.volume.output_bytes;
  EXPECT_EQ(bytes % kSeq, 0u);
  return bytes / kSeq;
}

Count keys_and_values(const char* config) {
  Plan plan = plan_of(1, kSeq, false);
  plan.cp = 2;
  return gathered(predict(parse_hf_config(config), plan, {"context_parallel=all_gather"}),
                  {".attn.k.rope", ".attn.v.heads"});
}

TEST(PublishedSizes, KeysAndValuesOfAToken) {
  EXPECT_EQ(keys_and_values(kLlama405B), 516'096u);
  EXPECT_EQ(keys_and_values(kQwen72B), 327'680u);
}

// What stands for keys and values: a latent of 512 and a rotary key of 64.
TEST(PublishedSizes, LatentsOfAToken) {
  const Program p = predict(parse_hf_config(kDeepSeekV3), plan_of(8, kSeq, true));
  EXPECT_EQ(gathered(p, {".attn.kv_norm", ".attn.k_rope", ".attn.k_rope.all"}), 70'272u);
}

TEST(PublishedSizes, ParametersOfLlama405B) {
  EXPECT_EQ(parameter_count(parse_hf_config(kLlama405B)), 405'853'388'800u);
}

}  // namespace
}  // namespace s2t
