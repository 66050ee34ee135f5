#include "analyzer/io/architecture.h"

#include <initializer_list>

namespace s2t {
namespace {

// A sum of products that throws instead of wrapping.
class Total {
 public:
  void add(std::initializer_list<int64_t> product) {
    Count term = 1;
    for (const int64_t factor : product) term = checked_mul(term, static_cast<Count>(factor));
    value_ = checked_add(value_, term);
  }
  void add(Count times, const Total& part) {
    value_ = checked_add(value_, checked_mul(times, part.value_));
  }
  Count value() const { return value_; }

 private:
  Count value_ = 0;
};

int64_t norm_vectors(const Architecture& a) {
  return a.norm == Norm::layer ? 2 : 1;
}

Total latent_attention(const Architecture& a) {
  const LatentAttention& l = *a.latent;
  const int64_t query = l.nope_dim + l.rope_dim;
  Total t;
  if (l.q_rank > 0) {
    t.add({a.hidden, l.q_rank});
    t.add({l.q_rank});  // its norm
    t.add({l.q_rank, a.heads, query});
  } else {
    t.add({a.hidden, a.heads, query});
  }
  t.add({a.hidden, l.kv_rank + l.rope_dim});
  t.add({l.kv_rank});
  t.add({l.kv_rank, a.heads, l.nope_dim + l.v_dim});
  t.add({a.heads, l.v_dim, a.hidden});
  return t;
}

Total attention(const Architecture& a) {
  if (a.latent) return latent_attention(a);
  const int64_t q = a.heads * a.head_dim;
  const int64_t kv = a.kv_heads * a.head_dim;
  Total t;
  t.add({a.hidden, q + 2 * kv});
  t.add({q, a.hidden});
  if (a.qkv_bias) t.add({q + 2 * kv});
  if (a.out_bias) t.add({a.hidden});
  if (a.qk_norm == QkNorm::per_head || a.qk_norm == QkNorm::per_head_last) t.add({2, a.head_dim});
  if (a.qk_norm == QkNorm::full) t.add({q + kv});
  if (a.sinks) t.add({a.heads});
  return t;
}

Total feed_forward(const Architecture& a, int64_t ffn, bool bias) {
  const int64_t up = a.gated ? 2 : 1;
  Total t;
  t.add({up + 1, a.hidden, ffn});
  if (bias) t.add({up * ffn + a.hidden});
  return t;
}

Total expert_layer(const Architecture& a) {
  const Experts& e = *a.experts;
  Total t;
  t.add({a.hidden, e.experts});
  if (e.router_bias || e.balanced_by_bias) t.add({e.experts});
  t.add(static_cast<Count>(e.experts), feed_forward(a, e.ffn, e.bias));
  if (e.shared_ffn > 0) t.add(1, feed_forward(a, e.shared_ffn, false));
  if (e.shared_gate) t.add({a.hidden});
  return t;
}

int64_t norms_per_layer(const Architecture& a) {
  if (a.shared_norm) return 1;
  return a.norms == NormPlace::around ? 4 : 2;
}

// The decoder's blocks; `cross`: with attention to an encoder, behind a norm of its own.
Total blocks(const Architecture& a, int64_t layers, bool cross) {
  const int64_t dense = a.experts ? a.experts->first_dense : layers;
  Total layer;
  layer.add(cross ? 2 : 1, attention(a));
  layer.add({norms_per_layer(a) + (cross ? 1 : 0), norm_vectors(a), a.hidden});
  Total t;
  t.add(static_cast<Count>(layers), layer);
  t.add(static_cast<Count>(dense), feed_forward(a, a.ffn, a.mlp_bias));
  if (a.experts) t.add(static_cast<Count>(layers - dense), expert_layer(a));
  if (a.positions == Positions::relative) t.add({a.position_rows, a.heads});
  if (a.final_norm) t.add({norm_vectors(a), a.hidden});
  return t;
}

}  // namespace

Count parameter_count(const Architecture& a) {
  Total t;
  t.add({a.tied ? 1 : 2, a.vocab, a.hidden});
  if (a.positions == Positions::learned) t.add({a.position_rows, a.hidden});
  t.add({a.token_types, a.hidden});
  if (a.embedding_norm) t.add({norm_vectors(a), a.hidden});
  if (a.encoder_layers > 0) t.add(1, blocks(a, a.encoder_layers, false));
  t.add(1, blocks(a, a.layers, a.encoder_layers > 0));
  if (a.pooler) t.add({a.hidden + 1, a.hidden});
  return t.value();
}

Count pretraining_head_count(const Architecture& a) {
  Total t;
  if (!a.pretraining_heads) return t.value();
  t.add({a.hidden + 1, a.hidden});
  t.add({norm_vectors(a), a.hidden});
  t.add({a.vocab});
  t.add({a.hidden + 1, 2});
  return t.value();
}

}  // namespace s2t
