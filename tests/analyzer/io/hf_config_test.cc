// Published configs, cut down to the keys that decide the shape; the counts are those that the
// model cards and checkpoints state.
#include "analyzer/io/hf_config.h"

#include <gmock/gmock.h>

#include "analyzer/io/hf_families.h"
#include "tests/analyzer/io/every_key.h"

namespace s2t {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Count count(std::string_view text) {
  return parameter_count(parse_hf_config(text));
}

std::vector<std::string> mistakes(std::string_view text) {
  try {
    parse_hf_config(text, "c.json");
  } catch (const UserError& e) {
    std::vector<std::string> lines;
    for (const Diagnostic& d : e.diagnostics()) lines.push_back(to_string(d, "c.json"));
    return lines;
  }
  return {};
}

TEST(HfConfig, CountsDenseModelsWithGroupedHeads) {
  EXPECT_EQ(count(R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
    "vocab_size": 128256, "tie_word_embeddings": false})"),
            8'030'261'248u);
  EXPECT_EQ(count(R"({"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
    "num_attention_heads": 64, "num_key_value_heads": 8, "num_hidden_layers": 80,
    "vocab_size": 128256, "tie_word_embeddings": false})"),
            70'553'706'496u);
  EXPECT_EQ(count(R"({"model_type": "llama", "hidden_size": 16384, "intermediate_size": 53248,
    "num_attention_heads": 128, "num_key_value_heads": 8, "num_hidden_layers": 126,
    "vocab_size": 128256})"),
            405'853'388'800u);
  EXPECT_EQ(count(R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 32768})"),
            7'248'023'552u);
  EXPECT_EQ(count(R"({"model_type": "phi3", "hidden_size": 5120, "intermediate_size": 17920,
    "num_attention_heads": 40, "num_key_value_heads": 10, "num_hidden_layers": 40,
    "vocab_size": 100352})"),
            14'659'507'200u);
}

TEST(HfConfig, KnowsThePartsThatNoKeyMentions) {
  EXPECT_EQ(count(R"({"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
    "num_attention_heads": 28, "num_key_value_heads": 4, "num_hidden_layers": 28,
    "vocab_size": 152064, "tie_word_embeddings": false})"),
            7'615'616'512u);  // biases of q, k and v
  EXPECT_EQ(count(R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_inner": null,
    "n_layer": 12, "n_positions": 1024, "vocab_size": 50257})"),
            124'439'808u);  // tied, learned positions
  EXPECT_EQ(count(R"({"model_type": "falcon", "hidden_size": 8192, "n_head": 128,
    "num_attention_heads": 128, "n_layer": 60, "num_hidden_layers": 60, "num_kv_heads": 8,
    "new_decoder_architecture": true, "bias": false, "vocab_size": 65024})"),
            41'303'293'952u);
  EXPECT_EQ(count(R"({"model_type": "bert", "hidden_size": 768, "intermediate_size": 3072,
    "max_position_embeddings": 512, "num_attention_heads": 12, "num_hidden_layers": 12,
    "type_vocab_size": 2, "vocab_size": 30522})"),
            109'482'240u);
  EXPECT_EQ(count(R"({"model_type": "t5", "d_ff": 2048, "d_kv": 64, "d_model": 512,
    "feed_forward_proj": "relu", "num_decoder_layers": 6, "num_heads": 8, "num_layers": 6,
    "relative_attention_num_buckets": 32, "vocab_size": 32128})"),
            60'506'624u);
}

TEST(HfConfig, CountsExpertsRoutersAndSharedExperts) {
  EXPECT_EQ(count(R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
    "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000})"),
            46'702'792'704u);
  EXPECT_EQ(count(R"({"model_type": "qwen3_moe", "hidden_size": 2048, "head_dim": 128,
    "intermediate_size": 6144, "moe_intermediate_size": 768, "num_attention_heads": 32,
    "num_key_value_heads": 4, "num_hidden_layers": 48, "num_experts": 128,
    "num_experts_per_tok": 8, "mlp_only_layers": [], "decoder_sparse_step": 1,
    "vocab_size": 151936})"),
            30'532'122'624u);
  EXPECT_EQ(count(R"({"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40,
    "attn_config": {"kv_n_heads": 8}, "ffn_config": {"ffn_hidden_size": 10752,
    "moe_num_experts": 16, "moe_top_k": 4}, "vocab_size": 100352})"),
            131'596'523'520u);
  EXPECT_EQ(count(R"({"model_type": "gpt_oss", "attention_bias": true, "head_dim": 64,
    "hidden_size": 2880, "intermediate_size": 2880, "num_attention_heads": 64,
    "num_key_value_heads": 8, "num_hidden_layers": 24, "num_local_experts": 32,
    "num_experts_per_tok": 4, "experts_per_token": 4, "vocab_size": 201088})"),
            20'914'757'184u);  // biases everywhere, a sink per head
}

TEST(HfConfig, CountsLatentAttentionAndDenseFirstLayersWithoutThePredictionLayer) {
  EXPECT_EQ(count(R"({"model_type": "deepseek_v3", "first_k_dense_replace": 3,
    "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512, "moe_layer_freq": 1,
    "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
    "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61,
    "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280})"),
            671'026'419'200u);
}

TEST(HfConfig, LayersThatPredictFurtherTokensAreLeftOutAndRemarked) {
  const auto remarks = [](const std::string& layers) {
    return parse_hf_config(R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
        "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 10,
        "num_nextn_predict_layers": )" +
                           layers + "}")
        .remarks;
  };
  ASSERT_EQ(remarks("1").size(), 1u);
  EXPECT_EQ(remarks("1")[0].slug, "prediction-layers");
  EXPECT_THAT(remarks("0"), IsEmpty());
}

// OPT has two rows more than positions.
TEST(HfConfig, PositionsThatNoKeyStatesAreThoseOfTheClass) {
  const std::string opt = R"({"model_type": "opt", "hidden_size": 64, "ffn_dim": 64,
    "num_attention_heads": 4, "num_hidden_layers": 1, "vocab_size": 10)";
  EXPECT_EQ(parse_hf_config(opt + "}").position_rows, 2050);
  EXPECT_EQ(parse_hf_config(opt + R"(, "max_position_embeddings": 30})").position_rows, 32);
  EXPECT_EQ(parse_hf_config(R"({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 1})")
                .position_rows,
            1024);
}

TEST(HfConfig, KeysThatAnotherKeyMakesIdleAreJudgedAllTheSame) {
  EXPECT_THAT(mistakes(R"({"model_type": "falcon", "hidden_size": 64, "num_attention_heads": 4,
        "num_hidden_layers": 2, "vocab_size": 10, "new_decoder_architecture": true,
        "multi_query": "no", "parallel_attn": 2, "num_ln_in_parallel_attn": 7, "alibi": 0})"),
              ElementsAre(HasSubstr("/multi_query"), HasSubstr("/parallel_attn"),
                          HasSubstr("/num_ln_in_parallel_attn"), HasSubstr("/alibi")));
}

TEST(HfConfig, TablesOfDistancesInBertAreRefused) {
  EXPECT_THAT(mistakes(R"({"model_type": "bert", "hidden_size": 64, "intermediate_size": 64,
        "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 10,
        "position_embedding_type": "relative_key"})"),
              ElementsAre(HasSubstr("positions of the kind \"relative_key\"")));
}

// The published file leaves out the vocabulary and that the embedding is tied.
TEST(HfConfig, ReadsTheTextModelOfAMultimodalFile) {
  EXPECT_EQ(count(R"({"model_type": "gemma3", "text_config": {"head_dim": 128,
    "hidden_size": 5376, "intermediate_size": 21504, "num_attention_heads": 32,
    "num_hidden_layers": 62, "num_key_value_heads": 16}, "vision_config": {"hidden_size": 1152}})"),
            27'009'346'304u);
}

TEST(HfConfig, TheClassSaysTheFamilyWhereNoModelTypeDoes) {
  const Architecture a = parse_hf_config(R"({"architectures": ["MixtralForCausalLM"],
    "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 8,
    "num_hidden_layers": 2, "num_local_experts": 4, "num_experts_per_tok": 2, "vocab_size": 100})");
  EXPECT_EQ(a.family, "mixtral");
  EXPECT_EQ(a.kv_heads, 8);
}

TEST(HfConfig, NullKeyValueHeadsMeanOnePerHeadAndAbsentOnesTheDefaultOfTheClass) {
  const std::string start = R"({"model_type": "mistral", "hidden_size": 64, "num_hidden_layers": 1,
    "intermediate_size": 128, "num_attention_heads": 16, "vocab_size": 10)";
  EXPECT_EQ(parse_hf_config(start + "}").kv_heads, 8);
  EXPECT_EQ(parse_hf_config(start + R"(, "num_key_value_heads": null})").kv_heads, 16);
}

TEST(HfConfig, CodeThatComesWithTheModelIsRemarked) {
  const Architecture a = parse_hf_config(R"({"model_type": "mistral", "hidden_size": 64,
    "num_hidden_layers": 1, "intermediate_size": 128, "num_attention_heads": 16, "vocab_size": 10,
    "auto_map": {"AutoConfig": "configuration_x.XConfig"}})");
  ASSERT_EQ(a.remarks.size(), 1u);
  EXPECT_EQ(a.remarks[0].slug, "remote-code");
}

TEST(HfConfig, AGatedWidthOfFourTimesTheHiddenSizeIsRemarked) {
  const Architecture a = parse_hf_config(R"({"name": "llama-65b", "num_layers": 80, "n_head": 64,
    "hidden_dim": 8192, "vocab_size": 32000, "ffn_embed_dim": 32768, "model_type": "llama"})");
  ASSERT_EQ(a.remarks.size(), 1u);
  EXPECT_EQ(a.remarks[0].slug, "implausible-width");
}

TEST(HfConfig, AnotherSchemaAndAnUnknownModelAreRefusedWithTheReason) {
  EXPECT_THAT(mistakes(R"({"alignment_heads": [[2, 2]], "lang_ids": [50259]})"),
              ElementsAre(HasSubstr("no \"model_type\"")));
  EXPECT_THAT(mistakes(R"({"dim": 2048, "n_layers": 27, "n_heads": 16})"),
              ElementsAre(HasSubstr("no \"model_type\"")));
  EXPECT_THAT(mistakes(R"({"architectures": "LlamaForCausalLM"})"),
              ElementsAre(HasSubstr("expected an array")));
  EXPECT_THAT(mistakes(R"({"architectures": ["XForCausalLM"], "auto_map": {"AutoConfig": "x.Y"}})"),
              ElementsAre(HasSubstr("a model of its own code")));
  EXPECT_THAT(mistakes(R"({"model_type": "mixtrl"})"),
              ElementsAre(testing::AllOf(HasSubstr("/model_type: model type \"mixtrl\""),
                                         HasSubstr("Did you mean \"mixtral\"?"))));
  EXPECT_THAT(mistakes(R"([1, 2])"), ElementsAre(HasSubstr("an object")));
}

TEST(HfConfig, EveryMistakeIsReportedAtOnce) {
  EXPECT_THAT(mistakes(R"({"model_type": "llama", "hidden_size": "4096", "intermediate_size": -5,
        "num_attention_heads": null, "num_hidden_layers": 2.5, "tie_word_embeddings": 1})"),
              testing::UnorderedElementsAre(
                  HasSubstr("/hidden_size: the string \"4096\"; expected a"),
                  HasSubstr("/intermediate_size: -5; expected"),
                  HasSubstr("null; expected a positive"), HasSubstr("/num_hidden_layers: 2.5"),
                  HasSubstr("no key \"vocab_size\""), HasSubstr("/tie_word_embeddings")));
  EXPECT_THAT(mistakes(R"({"model_type": "falcon", "hidden_size": 8192, "n_head": 64,
        "num_attention_heads": 128, "n_layer": 60, "vocab_size": 65024})"),
              ElementsAre(HasSubstr("64, but \"num_attention_heads\" is 128")));
  EXPECT_THAT(
      mistakes(R"({"model_type": "llama", "hidden_size": 100, "intermediate_size": 4,
        "num_attention_heads": 8, "num_key_value_heads": 3, "num_hidden_layers": 1,
        "vocab_size": 7})"),
      ElementsAre(HasSubstr("/num_attention_heads: 8 heads in a hidden size of 100 (/hidden_size)"),
                  HasSubstr("/num_attention_heads: 8 heads over 3 key-value heads "
                            "(/num_key_value_heads)")));
}

// Each with the fewest keys: a row that cannot be read at all would not be found otherwise.
TEST(HfConfig, EveryFamilyReadsAFileWithAllKeys) {
  for (const ConfigFamily& family : config_families()) {
    const std::string text = config_of(family.type);
    EXPECT_THAT(mistakes(text), IsEmpty()) << family.type;
    EXPECT_GT(count(text), 0u) << family.type;
  }
}

}  // namespace
}  // namespace s2t
