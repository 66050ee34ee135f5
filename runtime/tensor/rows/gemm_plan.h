// Recognises the contractions that a BLAS computes: strided, batched matrix products.
//
// A factor that both operands and the result have is a batch, one that the result and one operand
// have is a row or column, one that only the operands have is summed. Neighbouring factors of one
// class merge where every tensor walks through them with one stride: `x[b s k] w[n k] -> y[b s n]`
// is one product with m = b s, n and k. Not known here: who computes it.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <type_traits>

#include "runtime/device/device.h"
#include "runtime/tensor/bodies/contract.h"

namespace s2t {

// One index of a matrix product: its size and its stride in a, b and the result.
struct GemmIndex {
  int64_t size = 1;
  std::array<int64_t, 3> stride{0, 0, 0};

  // Takes in the next faster factor. False if two strides would be needed.
  bool merge(int64_t inner, const std::array<int64_t, 3>& strides) {
    for (size_t t = 0; t < 3; ++t)
      if (size != 1 && stride[t] != strides[t] * inner) return false;
    size *= inner;
    stride = strides;
    return true;
  }
};

struct GemmIndices {
  GemmIndex batch, m, n, k;
};

// One matrix as BLAS stores it: rows of unit stride, `ld` elements apart, or its transpose.
struct GemmStorage {
  bool transposed = false;
  int64_t ld = 1;
};

inline std::optional<GemmStorage> gemm_storage(const GemmIndex& row, const GemmIndex& column,
                                               size_t tensor) {
  const auto rows_of = [&](const GemmIndex& outer,
                           const GemmIndex& inner) -> std::optional<int64_t> {
    if (inner.size != 1 && inner.stride[tensor] != 1) return std::nullopt;
    if (outer.size == 1) return inner.size;
    if (outer.stride[tensor] < inner.size) return std::nullopt;
    return outer.stride[tensor];
  };
  if (const auto ld = rows_of(row, column)) return GemmStorage{false, *ld};
  if (const auto ld = rows_of(column, row)) return GemmStorage{true, *ld};
  return std::nullopt;
}

template <class T>
std::optional<GemmIndices> gemm_indices(const Contract<T>& c) {
  GemmIndices indices;
  for (int f = 0; f < c.factors; ++f) {
    if (c.size[f] == 1) continue;
    const int64_t a = c.in_stride[0][f], b = c.in_stride[1][f];
    const bool in_y = f < c.out_factors;
    GemmIndex* to = in_y ? (a && b ? &indices.batch
                            : a    ? &indices.m
                            : b    ? &indices.n
                                   : nullptr)
                         : (a && b ? &indices.k : nullptr);
    if (!to || !to->merge(c.size[f], {a, b, in_y ? c.out_stride[f] : 0})) return std::nullopt;
  }
  return indices;
}

// None if the contraction is no such product, or too large for BLAS's 32-bit sizes.
template <class T>
std::optional<Gemm> as_gemm(const Contract<T>& c) {
  if (c.terms != 2 || c.items() == 0 || c.summed() == 0) return std::nullopt;
  const auto found = gemm_indices(c);
  if (!found) return std::nullopt;
  const GemmIndex &batch = found->batch, &m = found->m, &n = found->n, &k = found->k;
  const auto a = gemm_storage(m, k, 0), b = gemm_storage(k, n, 1), y = gemm_storage(m, n, 2);
  if (!a || !b || !y) return std::nullopt;
  const int64_t largest = std::max({batch.size, m.size, n.size, k.size, a->ld, b->ld, y->ld});
  if (largest > std::numeric_limits<int>::max()) return std::nullopt;
  Gemm g;
  g.dtype = std::is_same_v<T, double> ? DType::f64 : DType::f32;
  g.k = k.size;
  g.batch = batch.size;
  g.c = c.out;
  g.ldc = y->ld;
  g.stride_c = batch.stride[2];
  g.alpha = static_cast<double>(c.alpha);
  g.beta = 1;
  if (y->transposed) {  // y' = b' a'
    g.m = n.size, g.n = m.size;
    g.a = c.in[1], g.lda = b->ld, g.stride_a = batch.stride[1], g.transpose_a = !b->transposed;
    g.b = c.in[0], g.ldb = a->ld, g.stride_b = batch.stride[0], g.transpose_b = !a->transposed;
  } else {
    g.m = m.size, g.n = n.size;
    g.a = c.in[0], g.lda = a->ld, g.stride_a = batch.stride[0], g.transpose_a = a->transposed;
    g.b = c.in[1], g.ldb = b->ld, g.stride_b = batch.stride[1], g.transpose_b = b->transposed;
  }
  return g;
}

}  // namespace s2t
