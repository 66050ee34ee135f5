#include "analyzer/io/hf_families.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/base/text.h"
#include "analyzer/io/hf_keys.h"

namespace s2t {
namespace {

constexpr Switch kAlways{true, ""};

// --- experts -------------------------------------------------------------------------------------

Experts read_experts(JsonObject& config, Architecture& a, Keys count) {
  Experts e;
  a.at["experts"] = place_of(config, count);
  e.experts = required_size(config, count, kMostExpertsOfConfig);
  e.top_k = required_size(config, {"num_experts_per_tok", "experts_per_token", "moe_top_k"},
                          kMostExpertsOfConfig);
  if (e.experts > 0 && e.top_k > e.experts)
    config.cursor().error(fmt::format("{} experts per token of {}", e.top_k, e.experts),
                          "at most as many as there are experts", "", "out-of-range");
  return e;
}

// Every layer has experts and they are as wide as the file's feed-forward layers.
void own_mixtral(JsonObject& config, Architecture& a) {
  a.experts = read_experts(config, a, {"num_local_experts"});
  a.experts->ffn = a.ffn;
}

void own_gpt_oss(JsonObject& config, Architecture& a) {
  own_mixtral(config, a);
  a.experts->router_bias = a.experts->bias = true;
  a.sinks = true;
}

// Experts in every layer but those that the file excepts, which this reader refuses.
void refuse_mixed_layers(JsonObject& config) {
  const JsonCursor step = config.nullable("decoder_sparse_step");
  if (step.integer(1).value_or(1) != 1)
    step.error("experts in every " + step.excerpt() + ". layer", "1: experts in every layer", "",
               "unsupported-config");
  const JsonCursor dense = config.nullable("mlp_only_layers");
  if (!dense.elements().empty())
    dense.error("dense layers among those with experts", "an empty list", "", "unsupported-config");
}

void own_qwen3_moe(JsonObject& config, Architecture& a) {
  refuse_mixed_layers(config);
  a.experts = read_experts(config, a, {"num_experts"});
  a.experts->ffn = required_size(config, {"moe_intermediate_size"});
}

void own_qwen2_moe(JsonObject& config, Architecture& a) {
  own_qwen3_moe(config, a);
  a.experts->shared_ffn = required_size(config, {"shared_expert_intermediate_size"});
  a.experts->shared_gate = true;
}

void own_dbrx(JsonObject& config, Architecture& a) {
  JsonObject attention = config.nullable("attn_config").object();
  attention.ignore_rest();
  if (const auto kv = attention.nullable("kv_n_heads").integer(1, kMostHeads)) a.kv_heads = *kv;
  JsonObject ffn = config.required("ffn_config").object();
  ffn.ignore_rest();
  a.experts = read_experts(ffn, a, {"moe_num_experts"});
  a.ffn = a.experts->ffn = required_size(ffn, {"ffn_hidden_size"});
}

// These keys must be there, but null is their 0.
int64_t size_or_null(JsonObject& config, std::string_view key, int64_t most) {
  const JsonCursor at = config.required(key);
  return at.is(JsonKind::null) ? 0 : at.integer(0, most).value_or(0);
}

void read_latent(JsonObject& config, Architecture& a) {
  LatentAttention l;
  l.q_rank = size_or_null(config, "q_lora_rank", kMostWidth);
  l.kv_rank = required_size(config, {"kv_lora_rank"});
  l.rope_dim = required_size(config, {"qk_rope_head_dim"});
  l.nope_dim = required_size(config, {"qk_nope_head_dim"});
  l.v_dim = required_size(config, {"v_head_dim"});
  a.latent = l;
}

void own_deepseek(JsonObject& config, Architecture& a) {
  read_latent(config, a);
  a.experts = read_experts(config, a, {"n_routed_experts"});
  Experts& e = *a.experts;
  e.ffn = required_size(config, {"moe_intermediate_size"});
  e.shared_ffn = size_or_null(config, "n_shared_experts", kMostExpertsOfConfig) * e.ffn;
  e.first_dense = std::min(a.layers, size_or_null(config, "first_k_dense_replace", kMostLayers));
  const JsonCursor step = config.nullable("moe_layer_freq");
  if (step.integer(1).value_or(1) != 1)
    step.error("experts in every " + step.excerpt() + ". layer", "1: experts in every layer", "",
               "unsupported-config");
}

// The router's correction bias is a stored number per expert, though no gradient moves it.
void own_deepseek_v3(JsonObject& config, Architecture& a) {
  own_deepseek(config, a);
  a.experts->balanced_by_bias = true;
}

// --- dense ---------------------------------------------------------------------------------------

// Two rows of the table are never used: positions begin at 2.
void own_opt(JsonObject& config, Architecture& a) {
  a.unused_positions = 2;
  a.position_rows += a.unused_positions;
  const JsonCursor width = config.nullable("word_embed_proj_dim");
  if (const auto w = width.integer(1, kMostWidth); w && *w != a.hidden)
    width.error(fmt::format("embeddings {} wide in a model {} wide", *w, a.hidden),
                "the hidden size: the projections between the two are not read", "",
                "unsupported-config");
  if (config.nullable("do_layer_norm_before").boolean().value_or(true)) return;
  a.norms = NormPlace::after_sum;
  a.final_norm = false;
}

void own_bloom(JsonObject&, Architecture& a) {
  a.embedding_norm = true;
}

// One key-value head unless the newer layout says how many; one norm for both parallel blocks in
// the older layout.
void own_falcon(JsonObject& config, Architecture& a) {
  const bool newer = config.nullable("new_decoder_architecture").boolean().value_or(false);
  const bool one = config.nullable("multi_query").boolean().value_or(true);
  const bool parallel = config.nullable("parallel_attn").boolean().value_or(true);
  a.parallel = newer || parallel;
  if (!newer) a.kv_heads = one ? 1 : a.heads;
  const JsonCursor norms = config.nullable("num_ln_in_parallel_attn");
  const int64_t stated = norms.integer(1, 2).value_or(newer ? 2 : 1);
  a.shared_norm = a.parallel && stated == 1;
  if (config.nullable("alibi").boolean().value_or(false)) a.positions = Positions::alibi;
}

void own_gpt_neox(JsonObject& config, Architecture& a) {
  a.parallel = config.nullable("use_parallel_residual").boolean().value_or(true);
}

void own_gemma(JsonObject& config, Architecture& a) {
  const JsonCursor cap = config.optional("final_logit_softcapping");
  if (!cap)
    a.soft_cap = a.family == "gemma2";
  else if (!cap.is(JsonKind::null))
    a.soft_cap = cap.number().value_or(0) > 0;
}

void own_bert(JsonObject& config, Architecture& a) {
  a.token_types = config.nullable("type_vocab_size").integer(0, kMostWidth).value_or(2);
  const JsonCursor positions = config.nullable("position_embedding_type");
  if (const auto kind = positions.string(); kind && *kind != "absolute")
    positions.error("positions of the kind " + quoted(kind->substr(0, 80)), "\"absolute\"",
                    "Tables of distances in every layer are not read.", "unsupported-config");
  a.embedding_norm = a.pooler = a.pretraining_heads = true;
  a.final_norm = a.causal = false;
}

void own_t5(JsonObject& config, Architecture& a) {
  a.encoder_layers = a.layers;
  if (const auto n = config.nullable("num_decoder_layers").integer(1, kMostLayers)) a.layers = *n;
  a.position_rows =
      config.nullable("relative_attention_num_buckets").integer(1, kMostWidth).value_or(32);
  const auto act = config.nullable("feed_forward_proj").string();
  a.gated = act && act->starts_with("gated");
  a.activation = a.gated ? "geglu" : "relu";
}

constexpr Switch kAttentionBias{false, "attention_bias"};

constexpr ConfigFamily kFamilies[] = {
    {.type = "llama",
     .klass = "Llama",
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .mlp_bias = {false, "mlp_bias"}},
    {.type = "mistral", .klass = "Mistral", .kv_heads = 8},
    {.type = "mixtral", .klass = "Mixtral", .kv_heads = 8, .own = own_mixtral},
    {.type = "qwen2", .klass = "Qwen2", .qkv_bias = kAlways, .kv_heads = 32},
    {.type = "qwen2_moe",
     .klass = "Qwen2Moe",
     .qkv_bias = {true, "qkv_bias"},
     .kv_heads = 16,
     .own = own_qwen2_moe},
    {.type = "qwen3",
     .klass = "Qwen3",
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .qk_norm = QkNorm::per_head,
     .kv_heads = 32,
     .head_dim = 128},
    {.type = "qwen3_moe",
     .klass = "Qwen3Moe",
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .qk_norm = QkNorm::per_head,
     .kv_heads = 4,
     .own = own_qwen3_moe},
    {.type = "deepseek_v2", .klass = "DeepseekV2", .own = own_deepseek},
    {.type = "deepseek_v3", .klass = "DeepseekV3", .own = own_deepseek_v3},
    {.type = "kimi_k2", .klass = "KimiK2", .own = own_deepseek_v3},
    {.type = "gpt2",
     .klass = "GPT2",
     .norm = Norm::layer,
     .gated = false,
     .tied = true,
     .positions = Positions::learned,
     .qkv_bias = kAlways,
     .out_bias = kAlways,
     .mlp_bias = kAlways,
     .grouped = false,
     .ffn_factor = 4,
     .vocab = 50257,
     .position_rows = 1024},
    {.type = "gpt_neox",
     .klass = "GPTNeoX",
     .norm = Norm::layer,
     .gated = false,
     .qkv_bias = {true, "attention_bias"},
     .out_bias = {true, "attention_bias"},
     .mlp_bias = kAlways,
     .grouped = false,
     .own = own_gpt_neox},
    {.type = "opt",
     .klass = "OPT",
     .norm = Norm::layer,
     .gated = false,
     .activation = "relu",
     .tied = true,
     .positions = Positions::learned,
     .qkv_bias = {true, "enable_bias"},
     .out_bias = {true, "enable_bias"},
     .mlp_bias = {true, "enable_bias"},
     .grouped = false,
     .position_rows = 2048,
     .own = own_opt},
    {.type = "bloom",
     .klass = "Bloom",
     .norm = Norm::layer,
     .gated = false,
     .tied = true,
     .positions = Positions::alibi,
     .qkv_bias = kAlways,
     .out_bias = kAlways,
     .mlp_bias = kAlways,
     .grouped = false,
     .ffn_factor = 4,
     .own = own_bloom},
    {.type = "falcon",
     .klass = "Falcon",
     .norm = Norm::layer,
     .gated = false,
     .tied = true,
     .qkv_bias = {false, "bias"},
     .out_bias = {false, "bias"},
     .mlp_bias = {false, "bias"},
     .ffn_factor = 4,
     .own = own_falcon},
    {.type = "gemma2",
     .klass = "Gemma2",
     .activation = "geglu",
     .tied = true,
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .norms = NormPlace::around,
     .kv_heads = 4,
     .head_dim = 256,
     .own = own_gemma},
    {.type = "gemma3",
     .klass = "Gemma3ForConditionalGeneration",
     .activation = "geglu",
     .tied = true,
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .qk_norm = QkNorm::per_head_last,
     .norms = NormPlace::around,
     .kv_heads = 4,
     .head_dim = 256,
     .vocab = 262208,
     .own = own_gemma},
    {.type = "gemma3_text",
     .klass = "Gemma3ForCausalLM",
     .activation = "geglu",
     .tied = true,
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .qk_norm = QkNorm::per_head_last,
     .norms = NormPlace::around,
     .kv_heads = 4,
     .head_dim = 256,
     .vocab = 262208,
     .own = own_gemma},
    {.type = "phi3", .klass = "Phi3"},
    {.type = "dbrx",
     .klass = "Dbrx",
     .norm = Norm::layer_without_bias,
     .own_ffn = true,
     .own = own_dbrx},
    {.type = "gpt_oss",
     .klass = "GptOss",
     .qkv_bias = {true, "attention_bias"},
     .out_bias = {true, "attention_bias"},
     .kv_heads = 8,
     .head_dim = 64,
     .own = own_gpt_oss},
    {.type = "olmo2",
     .klass = "Olmo2",
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .qk_norm = QkNorm::full,
     .norms = NormPlace::after},
    {.type = "glm4",
     .klass = "Glm4",
     .qkv_bias = {true, "attention_bias"},
     .norms = NormPlace::around,
     .kv_heads = 2,
     .head_dim = 128},
    {.type = "bert",
     .klass = "Bert",
     .norm = Norm::layer,
     .gated = false,
     .tied = true,
     .positions = Positions::learned,
     .qkv_bias = kAlways,
     .out_bias = kAlways,
     .mlp_bias = kAlways,
     .norms = NormPlace::after_sum,
     .grouped = false,
     .position_rows = 512,
     .own = own_bert},
    {.type = "t5",
     .klass = "T5",
     .gated = false,
     .tied = true,
     .positions = Positions::relative,
     .grouped = false,
     .head_dim = 64,
     .own = own_t5},
};

}  // namespace

std::span<const ConfigFamily> config_families() {
  return kFamilies;
}

}  // namespace s2t
