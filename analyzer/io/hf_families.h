// The model families whose Hugging Face config.json is read, as a table: what a key means when it
// is absent, and which parts a family has that no key mentions. A new family is one row, and a
// function where its keys are its own. Source of each row: transformers,
// models/<model_type>/configuration_<model_type>.py and modeling_<model_type>.py.
//
// Not known here: how keys that all families share are read (hf_config.cc).
#pragma once

#include <span>
#include <string_view>

#include "analyzer/io/architecture.h"
#include "analyzer/io/json_cursor.h"

namespace s2t {

// A part that exists always, never, or as a key of the file says.
struct Switch {
  bool otherwise = false;     // also if the key is absent
  std::string_view key = {};  // "": no key decides
};

struct ConfigFamily {
  std::string_view type;   // "model_type"
  std::string_view klass;  // begins the name in "architectures": "LlamaForCausalLM"
  Norm norm = Norm::rms;
  bool gated = true;
  std::string_view activation = {};  // an op; "": swiglu if gated, else gelu
  bool tied = false;                 // if "tie_word_embeddings" is absent
  Positions positions = Positions::rotary;
  Switch qkv_bias = {}, out_bias = {}, mlp_bias = {};
  QkNorm qk_norm = QkNorm::none;
  NormPlace norms = NormPlace::before;
  bool grouped = true;        // may have fewer key-value heads than heads
  int64_t kv_heads = 0;       // if the key is absent; 0: as many as heads
  int64_t head_dim = 0;       // if the key is absent; 0: hidden / heads
  int64_t ffn_factor = 0;     // ffn = factor x hidden if the key is absent; 0: the key is required
  bool own_ffn = false;       // `own` reads the width
  int64_t vocab = 0;          // if the key is absent; 0: the key is required
  int64_t position_rows = 0;  // of learned positions, if the key is absent
  // Reads what only this family has, after the shared keys.
  void (*own)(JsonObject& config, Architecture& architecture) = nullptr;
};

std::span<const ConfigFamily> config_families();

}  // namespace s2t
