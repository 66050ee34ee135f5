// Layers: attention, and MLP or experts, with the norms and sums around them; an encoder in front.
#include <fmt/format.h>

#include <utility>

#include "analyzer/io/transformer/blocks.h"

namespace s2t {
namespace {

// What a block reads of x.
std::string input_of(ModelBuilder& b, const std::string& x) {
  const bool before = b.a.norms == NormPlace::before || b.a.norms == NormPlace::around;
  return before ? norm(b, x, "norm", b.a.hidden) : x;
}

// x and what a block made of it.
std::string with(ModelBuilder& b, const std::string& x, std::string y) {
  if (b.a.norms == NormPlace::after || b.a.norms == NormPlace::around)
    y = norm(b, y, "post_norm", b.a.hidden);
  const std::string sum = b.op("add", "out", {x, y});
  return b.a.norms == NormPlace::after_sum ? norm(b, sum, "post_norm", b.a.hidden) : sum;
}

std::string attention_block(ModelBuilder& b, const std::string& x, const std::string& prefix) {
  b.module = prefix + ".attn";
  return with(b, x, attention(b, input_of(b, x)));
}

std::string mlp_block(ModelBuilder& b, const std::string& x, const std::string& prefix) {
  b.module = prefix + ".mlp";
  return with(b, x, mlp(b, input_of(b, x)));
}

std::string experts_block(ModelBuilder& b, const std::string& x, const std::string& prefix) {
  b.module = prefix + ".moe";
  return with(b, x, experts(b, input_of(b, x)));
}

// x + attention(norm(x)) + mlp(norm(x)). Each block gathers its input and reduces its output by
// itself, or both outputs are reduced as one sum.
std::string parallel_layer(ModelBuilder& b, const std::string& x, const std::string& prefix) {
  const bool once = b.p.tp > 1 && b.profile.is("parallel_blocks", "one_reduction");
  b.rows_stay_partial = once;
  b.module = prefix + ".attn";
  const std::string n = input_of(b, x);
  const std::string y = attention(b, n);
  b.module = prefix + ".mlp";
  const std::string z = mlp(b, b.a.shared_norm ? b.op("identity", "input", {n}) : input_of(b, x));
  b.rows_stay_partial = false;
  OpDecl& sum = b.add_op("add", "both", {y, z});
  if (once) sum.modes["tp"] = "linear";
  const std::string both = sum.name;
  if (once) b.pin(both, {{"tp", b.tokens()}});
  return b.op("add", "out", {x, both});
}

void begin(ModelBuilder& b) {
  const bool by_op = b.p.recompute == Recompute::selective && b.profile.is("recompute", "by_op");
  if (b.p.recompute == Recompute::full || by_op) b.recomputed = b.next_recomputed++;
}

}  // namespace

std::string layer(ModelBuilder& b, const std::string& x, int64_t number) {
  begin(b);
  const std::string prefix = fmt::format("layers.{}", number);
  if (b.a.parallel) return parallel_layer(b, x, prefix);
  const std::string y = attention_block(b, x, prefix);
  const bool sparse = b.a.experts && number >= b.a.experts->first_dense;
  return sparse ? experts_block(b, y, prefix) : mlp_block(b, y, prefix);
}

// Megatron makes them before the layers, transformers in the first of them: that is seen only in
// the order of what is sent over tp for them, or of gradients.
void begin_stack(ModelBuilder& b, const std::string& name) {
  if (b.a.positions != Positions::relative) return;
  b.stack = name;
  b.score_bias = b.p.tp > 1 ? relative_positions(b) : "";
}

// One table of [buckets, heads]; which bucket a pair of positions falls into is data.
std::string relative_positions(ModelBuilder& b) {
  const std::string module = std::exchange(b.module, b.stack);
  const int recomputed = std::exchange(b.recomputed, -1);
  const std::string table = b.parameter("positions.weight", {b.a.position_rows, b.a.heads});
  const std::string buckets = b.integers(b.stack + ".buckets", {b.p.seq, b.p.seq});
  const std::string bias = b.op("embedding", "positions", {buckets, table});
  b.module = module;
  b.recomputed = recomputed;
  return bias;
}

std::string encoder(ModelBuilder& b) {
  std::string x = embedding(b);
  b.causal = false;
  begin_stack(b, "encoder");
  for (int64_t i = 0; i < b.a.encoder_layers; ++i) {
    begin(b);
    const std::string prefix = fmt::format("encoder.{}", i);
    x = mlp_block(b, attention_block(b, x, prefix), prefix);
  }
  b.recomputed = -1;
  b.module = "encoder";
  b.causal = true;
  return norm(b, x, "norm", b.a.hidden);
}

std::string layer_with_memory(ModelBuilder& b, const std::string& x, const std::string& memory,
                              int64_t number) {
  begin(b);
  const std::string prefix = fmt::format("layers.{}", number);
  const std::string y = attention_block(b, x, prefix);
  b.module = prefix + ".cross";
  const std::string z = with(b, y, cross_attention(b, input_of(b, y), memory));
  return mlp_block(b, z, prefix);
}

}  // namespace s2t
