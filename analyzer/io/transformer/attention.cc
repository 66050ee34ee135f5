// Attention: multi-head, grouped, or with queries, keys and values from latents (DeepSeek-V2), each
// with the tokens whole or split over context-parallel ranks.
#include <array>
#include <utility>

#include "analyzer/io/transformer/blocks.h"

namespace s2t {
namespace {

using Sizes = std::map<std::string, int64_t>;

struct Heads {
  std::string q, k, v;
};

std::string reshaped(ModelBuilder& b, const std::string& x, const std::string& suffix,
                     const char* rule, int64_t heads) {
  return add_reshape(b, x, suffix, rule,
                     {{"p", b.p.dp}, {"s", b.p.seq}, {"b", b.p.micro_batch}, {"h", heads}})
      .name;
}

std::string split_heads(ModelBuilder& b, const std::string& x, const std::string& suffix,
                        int64_t heads) {
  return reshaped(b, x, suffix + ".heads", "x[(p s b) (h d)] -> y[(p b) h s d]", heads);
}

std::string projected(ModelBuilder& b, const std::string& n, const std::string& suffix,
                      int64_t heads) {
  std::string x = column(b, n, suffix, heads * b.a.head_dim, b.a.qkv_bias);
  if (b.a.qk_norm == QkNorm::full && suffix != "v")
    x = norm(b, x, suffix + ".norm", heads * b.a.head_dim);
  return split_heads(b, x, suffix, heads);
}

// Of queries and keys.
std::string normed_and_rotated(ModelBuilder& b, std::string x, const std::string& suffix) {
  if (b.a.qk_norm == QkNorm::per_head || b.a.qk_norm == QkNorm::per_head_last)
    x = norm(b, x, suffix + ".norm", b.a.head_dim);
  return b.a.positions == Positions::rotary ? b.op("rope", suffix + ".rope", {x}) : x;
}

// Queries from n, keys and values from m.
Heads heads_of(ModelBuilder& b, const std::string& n, const std::string& m) {
  const bool last = b.a.qk_norm == QkNorm::per_head_last;
  Heads h;
  h.q = projected(b, n, "q", b.a.heads);
  if (!last) h.q = normed_and_rotated(b, h.q, "q");
  h.k = projected(b, m, "k", b.a.kv_heads);
  if (!last) h.k = normed_and_rotated(b, h.k, "k");
  h.v = projected(b, m, "v", b.a.kv_heads);
  if (last) h.q = normed_and_rotated(b, h.q, "q");
  if (last) h.k = normed_and_rotated(b, h.k, "k");
  return h;
}

Heads plain_heads(ModelBuilder& b, const std::string& n) {
  b.gathered_again(n);
  return heads_of(b, n, n);
}

// --- latent attention ----------------------------------------------------------------------------

// A latent, its norm, and what column linears make of it.
std::string latent(ModelBuilder& b, const std::string& n, const std::string& suffix, int64_t rank) {
  const std::string y =
      norm(b, duplicated(b, n, suffix + "_down", rank, false), suffix + "_norm", rank);
  b.gathered_again(y);
  return y;
}

std::string up(ModelBuilder& b, const std::string& x, const std::string& suffix, int64_t width,
               int64_t rank) {
  return split_heads(b, column_from(b, x, suffix, b.a.heads * width, rank, false), suffix,
                     b.a.heads);
}

// One rotated part for all heads: every rank of tp needs it for all tokens.
std::string shared_rotation(ModelBuilder& b, const std::string& n) {
  const std::string x = duplicated(b, n, "k_rope_down", b.a.latent->rope_dim, false);
  const std::string rotated = b.op("rope", "k_rope", {split_heads(b, x, "k_rope", 1)});
  OpDecl& decl = b.add_op("einsum", "k_rope.all", {rotated});
  decl.attributes["rule"] = {std::string("x[b o s d] -> y[b h s d]"), decl.pointer};
  decl.attributes["sizes"] = {Sizes{{"h", b.a.heads}}, decl.pointer};
  if (b.p.tp > 1) decl.modes["tp"] = "split(h)";
  return decl.name;
}

Heads latent_heads(ModelBuilder& b, const std::string& n) {
  const LatentAttention& l = *b.a.latent;
  const int64_t query = l.nope_dim + l.rope_dim;
  // In the order of the source, which gathers the shared rotation first and reduces its gradient
  // last.
  const std::string rotation = shared_rotation(b, n);
  const std::string from = l.q_rank > 0 ? latent(b, n, "q", l.q_rank) : column_input(b, n, "q.in");
  const std::string q =
      b.op("rope", "q.rope", {up(b, from, "q", query, l.q_rank > 0 ? l.q_rank : b.a.hidden)});
  const std::string kv = latent(b, n, "kv", l.kv_rank);
  const std::string k = up(b, kv, "k", l.nope_dim, l.kv_rank);
  const std::string v = up(b, kv, "v", l.v_dim, l.kv_rank);
  return {q, b.op("concat", "k.both", {k, rotation}), v};
}

// --- the core ------------------------------------------------------------------------------------

bool over_cp(const ModelBuilder& b, const char* how) {
  return b.p.cp > 1 && b.profile.is("context_parallel", how);
}

// DeepSpeed-Ulysses: heads instead of tokens over cp, and back. It is the heads of a rank of tp that
// are exchanged, so those ranks become a part of the batch, t: heads (t h) of samples (p b) are
// heads h of samples (p t b).
std::string by_samples(ModelBuilder& b, const std::string& x, const std::string& suffix,
                       const char* rule, int64_t heads) {
  return add_reshape(b, x, suffix, rule,
                     {{"p", b.p.dp},
                      {"t", b.p.tp},
                      {"s", b.p.seq},
                      {"b", b.p.micro_batch},
                      {"h", heads / b.p.tp}})
      .name;
}

std::string with_all_tokens(ModelBuilder& b, const std::string& x, int64_t heads) {
  return by_samples(b, x, x.substr(b.module.size() + 1) + ".whole",
                    "x[(p b) (t h) s d] -> y[(p t b) h s d]", heads);
}

// The op, and what it reads besides.
std::string_view core_op(ModelBuilder& b, std::vector<std::string>& inputs) {
  if (b.a.sinks) {
    inputs.push_back(b.parameter("sinks", {b.a.heads}, {{"tp", "S(0)"}}));
    return "attention_with_sinks";
  }
  if (b.stack.empty()) return "attention";
  if (b.score_bias.empty()) b.score_bias = relative_positions(b);
  inputs.push_back(b.score_bias);
  return "attention_biased";
}

// One key or value head for each query head.
std::string repeated(ModelBuilder& b, const std::string& x) {
  if (b.a.latent || b.a.kv_heads == b.a.heads) return x;
  OpDecl& decl = b.add_op("einsum", x.substr(b.module.size() + 1) + ".repeated", {x});
  decl.attributes["rule"] = {std::string("x[b g s h] -> y[b (g r) s h]"), decl.pointer};
  decl.attributes["sizes"] = {Sizes{{"r", b.a.heads / b.a.kv_heads}}, decl.pointer};
  return decl.name;
}

std::string core(ModelBuilder& b, Heads heads) {
  const bool torch = b.p.cp > 1 && b.profile.is("gradient_sync", "fsdp");
  const bool repeats = b.profile.is("exchanged_kv_heads", "repeated");
  const bool each = !b.profile["exchanged_kv_heads"].empty();
  if (torch || (over_cp(b, "a2a") && repeats)) {
    heads.k = repeated(b, heads.k);
    heads.v = repeated(b, heads.v);
  }
  std::vector<std::string> inputs{heads.q, heads.k, heads.v};
  if (over_cp(b, "a2a")) {
    // DeepSpeed exchanges each by itself, so that gradients come back the other way round;
    // Transformer Engine all together, queries first in both directions.
    const int64_t kv_heads = b.a.latent || repeats ? b.a.heads : b.a.kv_heads;
    for (const size_t i : each ? std::array<size_t, 3>{0, 1, 2} : std::array<size_t, 3>{2, 1, 0})
      inputs[i] = with_all_tokens(b, inputs[i], i == 0 ? b.a.heads : kv_heads);
    for (const std::string& x : inputs)
      if (each) b.pin(x, {{"tp", "S(0)"}, {"cp", "S(1)"}});
  }
  if (over_cp(b, "all_gather"))  // for the forward, and again for the backward
    for (const std::string& x : {heads.k, heads.v}) b.not_kept(x, "context_parallel=all_gather");
  const std::string_view op = core_op(b, inputs);
  OpDecl& decl = b.add_op(op, "core", inputs);
  decl.attributes["causal"] = {b.causal, decl.pointer};
  if (torch || over_cp(b, "p2p")) decl.modes["cp"] = "ring(s)";
  if (over_cp(b, "a2a") && !each) decl.modes["cp"] = "split(g)";
  const std::string o = decl.name;
  if (over_cp(b, "a2a")) b.pin(o, {{"tp", "S(0)"}, {"cp", "S(2)"}});
  return o;
}

// The heads of a token, one after the other.
std::string merged(ModelBuilder& b, const std::string& y) {
  if (over_cp(b, "a2a"))
    return by_samples(b, y, "merge", "x[(p t b) h s d] -> y[(p s b) (t h d)]", b.a.heads);
  return reshaped(b, y, "merge", "x[(p b) h s d] -> y[(p s b) (h d)]", b.a.heads);
}

std::string attended(ModelBuilder& b, const Heads& heads) {
  const int64_t width = b.a.latent ? b.a.latent->v_dim : b.a.head_dim;
  const bool again =
      b.p.recompute == Recompute::selective && b.profile.is("recompute", "whole_layers") &&
      !b.profile.is("exchanged_kv_heads", "repeated");  // Ulysses stands around what runs again
  if (again) b.recomputed = b.next_recomputed++;
  const std::string y = core(b, heads);
  if (again) b.recomputed = -1;
  return row(b, merged(b, y), "proj", b.a.heads * width, b.a.out_bias);
}

}  // namespace

std::string attention(ModelBuilder& b, const std::string& n) {
  return attended(b, b.a.latent ? latent_heads(b, n) : plain_heads(b, n));
}

// All tokens of the memory are seen, and their distance means nothing. Every layer gathers the
// memory by itself.
std::string cross_attention(ModelBuilder& b, const std::string& n, const std::string& memory) {
  const std::string m = b.op("identity", "memory", {memory});
  b.gathered_again(n);
  b.gathered_again(m);
  const std::string stack = std::exchange(b.stack, "");
  b.causal = false;
  const std::string y = attended(b, heads_of(b, n, m));
  b.causal = true;
  b.stack = stack;
  return y;
}

}  // namespace s2t
