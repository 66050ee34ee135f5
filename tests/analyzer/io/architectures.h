// Architectures of a chosen size; tests change what they are about.
#pragma once

#include "analyzer/io/architecture.h"

namespace s2t {

// A llama.
inline Architecture dense(int64_t layers, int64_t hidden, int64_t heads) {
  Architecture a;
  a.family = a.name = "llama";
  a.layers = layers;
  a.hidden = hidden;
  a.heads = a.kv_heads = heads;
  a.head_dim = hidden / heads;
  a.ffn = 4 * hidden;
  a.gated = true;
  a.vocab = 51200;
  return a;
}

// Layer norms and biases everywhere, learned positions, tied.
inline Architecture gpt(int64_t layers, int64_t hidden, int64_t heads) {
  Architecture a = dense(layers, hidden, heads);
  a.norm = Norm::layer;
  a.gated = false;
  a.qkv_bias = a.out_bias = a.mlp_bias = a.tied = true;
  a.positions = Positions::learned;
  a.position_rows = 8192;
  return a;
}

}  // namespace s2t
