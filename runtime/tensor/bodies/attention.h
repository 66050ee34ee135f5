// Scaled dot-product attention and rotary positions, for
//   q[b (g r) s h] k[b g t h] v[b g t j] -> o[b (g r) s j]   and   x[b n s h] -> y[b n s h].
// Scores may have a bias[s t (g r)] added, and a head may have a sink[(g r)]: one more score, of a
// key whose value is 0.
//
// One item per query row, and one per key row for dk and dv, as in the two passes of flash
// attention: a query item leaves the log-sum-exp of its scores and delta = sum(o do) for the
// second. A causal mask lets query s see keys t <= s; `first` is the global position of the first
// query.
#pragma once

#include <cmath>

#include "runtime/tensor/bodies/hd.h"

namespace s2t {

template <class T>
S2T_HD T dot(const T* a, const T* b, int64_t n) {
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

template <class T>
struct AttentionShape {
  int64_t heads, r, s, t, h, j;  // b and g are folded: head pair bg = item / (r s)
  int64_t first;
  bool causal;
  T scale;
  const T *bias, *sink;  // either may be null

  S2T_HD int64_t pair(int64_t row) const { return row / (r * s); }
  S2T_HD int64_t head(int64_t row) const { return row / s % heads; }
  S2T_HD T score(int64_t row, int64_t key, const T* query, const T* keys) const {
    const T product = scale * dot(query, keys + key * h, h);
    return bias ? product + bias[(row % s * t + key) * heads + head(row)] : product;
  }
  S2T_HD int64_t keys(int64_t row) const {
    const int64_t seen = first + row % s + 1;
    return causal && seen < t ? seen : t;
  }
};

template <class T>
struct AttentionForward {
  AttentionShape<T> a;
  const T *q, *k, *v;
  T* o;
  T* lse;  // may be null

  S2T_HD void operator()(int64_t row) const {
    const T* query = q + row * a.h;
    const T* keys = k + a.pair(row) * a.t * a.h;
    const T* values = v + a.pair(row) * a.t * a.j;
    const int64_t n = a.keys(row);
    T top = a.sink ? a.sink[a.head(row)] : a.score(row, 0, query, keys);
    for (int64_t t = 0; t < n; ++t) {
      const T score = a.score(row, t, query, keys);
      top = score > top ? score : top;
    }
    T sum = a.sink ? std::exp(a.sink[a.head(row)] - top) : T(0);
    T* out = o + row * a.j;
    for (int64_t j = 0; j < a.j; ++j) out[j] = 0;
    for (int64_t t = 0; t < n; ++t) {
      const T p = std::exp(a.score(row, t, query, keys) - top);
      sum += p;
      for (int64_t j = 0; j < a.j; ++j) out[j] += p * values[t * a.j + j];
    }
    if (n > 0)  // else the mask hides all: nothing, and exp(lse) = 0
      for (int64_t j = 0; j < a.j; ++j) out[j] /= sum;
    if (lse) lse[row] = top + std::log(sum);
  }
};

template <class T>
struct AttentionQueryBackward {
  AttentionShape<T> a;
  const T *q, *k, *v, *o, *dout, *lse;
  T* delta;
  T* dq;  // may be null

  S2T_HD void operator()(int64_t row) const {
    const T* query = q + row * a.h;
    const T* keys = k + a.pair(row) * a.t * a.h;
    const T* values = v + a.pair(row) * a.t * a.j;
    const T* grad = dout + row * a.j;
    delta[row] = dot(o + row * a.j, grad, a.j);
    if (!dq) return;
    for (int64_t t = 0; t < a.keys(row); ++t) {
      const T p = std::exp(a.score(row, t, query, keys) - lse[row]);
      const T ds = p * (dot(grad, values + t * a.j, a.j) - delta[row]) * a.scale;
      for (int64_t h = 0; h < a.h; ++h) dq[row * a.h + h] += ds * keys[t * a.h + h];
    }
  }
};

template <class T>
struct AttentionKeyBackward {  // item = (b g) t
  AttentionShape<T> a;
  const T *q, *k, *v, *dout, *lse, *delta;
  T *dk, *dv;  // either may be null

  S2T_HD void operator()(int64_t item) const {
    const int64_t pair = item / a.t, t = item % a.t;
    for (int64_t i = 0; i < a.r * a.s; ++i) {
      const int64_t row = pair * a.r * a.s + i;
      if (t >= a.keys(row)) continue;
      const T* query = q + row * a.h;
      const T* grad = dout + row * a.j;
      const T p = std::exp(a.score(row, t, query, k + pair * a.t * a.h) - lse[row]);
      if (dv)
        for (int64_t j = 0; j < a.j; ++j) dv[item * a.j + j] += p * grad[j];
      const T ds = p * (dot(grad, v + item * a.j, a.j) - delta[row]) * a.scale;
      if (dk)
        for (int64_t h = 0; h < a.h; ++h) dk[item * a.h + h] += ds * query[h];
    }
  }
};

template <class T>
struct AttentionBiasBackward {  // item = (s t) head
  AttentionShape<T> a;
  const T *q, *k, *v, *dout, *lse, *delta;
  T* dbias;
  int64_t batches;

  S2T_HD void operator()(int64_t item) const {
    const int64_t head = item % a.heads, t = item / a.heads % a.t, s = item / a.heads / a.t;
    for (int64_t b = 0; b < batches; ++b) {
      const int64_t row = (b * a.heads + head) * a.s + s;
      if (t >= a.keys(row)) continue;
      const T p = std::exp(a.score(row, t, q + row * a.h, k + a.pair(row) * a.t * a.h) - lse[row]);
      const T* value = v + (a.pair(row) * a.t + t) * a.j;
      dbias[item] += p * (dot(dout + row * a.j, value, a.j) - delta[row]);
    }
  }
};

template <class T>
struct AttentionSinkBackward {  // item = head
  AttentionShape<T> a;
  const T *lse, *delta;
  T* dsink;
  int64_t batches;

  S2T_HD void operator()(int64_t head) const {
    for (int64_t b = 0; b < batches; ++b)
      for (int64_t s = 0; s < a.s; ++s) {
        const int64_t row = (b * a.heads + head) * a.s + s;
        dsink[head] -= std::exp(a.sink[head] - lse[row]) * delta[row];
      }
  }
};

// Rotates the pairs (x[i], x[i + h/2]) of a row by position * base^(-2i/h), the "half" order of
// GPT-NeoX and Llama in Hugging Face. direction -1 is the inverse, which is the backward.
template <class T>
struct Rope {
  const T* x;
  T* y;
  int64_t s, h, first;
  double base;
  int direction;

  S2T_HD void operator()(int64_t row) const {
    const int64_t half = h / 2;
    const double position = static_cast<double>(first + row % s);
    const T* in = x + row * h;
    T* out = y + row * h;
    if (h % 2) out[h - 1] = in[h - 1];
    for (int64_t i = 0; i < half; ++i) {
      const double angle = position * std::pow(base, -2.0 * static_cast<double>(i) / h);
      const T c = T(std::cos(angle)), n = T(direction * std::sin(angle));
      out[i] = in[i] * c - in[i + half] * n;
      out[i + half] = in[i + half] * c + in[i] * n;
    }
  }
};

}  // namespace s2t
