// What a transformer is made of, as plain data: sizes, and which parts exist. A reader of published
// configs (hf_config.h) fills it; `parameter_count` and the model builder (transformer.h) read it.
//
// Not known here: any file format, any framework, how the model is split.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/dtype.h"
#include "analyzer/base/units.h"

namespace s2t {

enum class Norm : uint8_t { rms, layer, layer_without_bias };
enum class Positions : uint8_t { rotary, learned, alibi, relative };
// Of queries and keys: of each head, right behind its projection or when all three projections are
// done; or of all heads together.
enum class QkNorm : uint8_t { none, per_head, per_head_last, full };

// Where the norms of a block stand, for attention and MLP alike.
enum class NormPlace : uint8_t {
  before,     // x + block(norm(x)): GPT-2, llama
  after,      // x + norm(block(x)): OLMo 2
  around,     // x + norm(block(norm(x))): Gemma 2 and 3, GLM 4
  after_sum,  // norm(x + block(x)): BERT
};

struct Experts {
  int64_t experts = 0, top_k = 0;
  int64_t ffn = 0;           // of one expert
  int64_t shared_ffn = 0;    // of all shared experts together; 0: none
  bool shared_gate = false;  // a linear to one number scales the shared expert
  int64_t first_dense = 0;   // layers before the first one with experts
  bool router_bias = false;
  bool balanced_by_bias = false;  // a stored number per expert that no gradient moves
  bool bias = false;              // of the experts' linears
};

// Multi-head latent attention (DeepSeek-V2): queries, keys and values come from low-rank latents.
struct LatentAttention {
  int64_t q_rank = 0;  // 0: queries come straight from the hidden state
  int64_t kv_rank = 0;
  int64_t rope_dim = 0, nope_dim = 0, v_dim = 0;  // per head
};

struct Architecture {
  std::string family;  // model_type
  std::string name;
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t ffn = 0;
  bool gated = false;           // two up-projections, one through the activation
  std::string_view activation;  // an op; "": swiglu if gated, else gelu
  int64_t vocab = 0;
  bool tied = false;  // the output layer is the embedding

  Norm norm = Norm::rms;
  NormPlace norms = NormPlace::before;
  bool final_norm = true, embedding_norm = false;
  QkNorm qk_norm = QkNorm::none;
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  bool sinks = false;        // one learned attention sink per head
  bool parallel = false;     // attention and MLP read the same input and add up
  bool shared_norm = false;  // and one norm of it
  bool causal = true;        // later tokens are not seen; an encoder in front sees them
  bool soft_cap = false;     // of the logits

  Positions positions = Positions::rotary;
  int64_t position_rows = 0;     // of a learned table, or relative buckets
  int64_t unused_positions = 0;  // rows of it that no token has
  int64_t token_types = 0;       // rows of a segment embedding
  bool pooler = false;
  // BERT is trained to restore words and to tell whether one sentence follows another: a dense
  // layer with a norm before the logits, a bias of these, and a linear to two numbers. Published
  // counts leave them out, as they do prediction layers.
  bool pretraining_heads = false;

  std::optional<Experts> experts;
  std::optional<LatentAttention> latent;
  int64_t encoder_layers = 0;  // of an encoder in front of a decoder with cross-attention

  int64_t stated_positions = 0;  // where they have no rows; 0: not said
  std::optional<DType> stored;   // element type of the published parameters

  // Where a file says a size, by the member's name: "heads" -> "/text_config/n_head". Defaults have
  // no place.
  std::map<std::string, std::string> at;
  std::vector<Remark> remarks;
};

// Learned numbers, unsharded: the vocabulary unpadded, tied tables once, no vision tower, no extra
// prediction layers and no pretraining heads. Throws Overflow.
Count parameter_count(const Architecture& architecture);
// Of the pretraining heads alone.
Count pretraining_head_count(const Architecture& architecture);

}  // namespace s2t
