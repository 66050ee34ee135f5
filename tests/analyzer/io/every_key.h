// A config that holds all keys that any family reads.
#pragma once

#include <string>
#include <string_view>

namespace s2t {

inline std::string config_of(std::string_view family) {
  return R"({"model_type": ")" + std::string(family) + R"(",
      "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "num_kv_heads": 4,
      "num_hidden_layers": 3, "intermediate_size": 96, "vocab_size": 100,
      "max_position_embeddings": 32, "num_experts": 4, "num_local_experts": 4,
      "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
      "shared_expert_intermediate_size": 32, "n_shared_experts": 1, "first_k_dense_replace": 1,
      "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
      "v_head_dim": 8, "ffn_config": {"ffn_hidden_size": 96, "moe_num_experts": 4,
      "moe_top_k": 2}})";
}

}  // namespace s2t
