// Normalisation over the last dim: one item per row, and one per feature for gamma and beta.
#pragma once

#include <cmath>

#include "runtime/tensor/bodies/hd.h"

namespace s2t {

// Mean and 1/sqrt(variance + eps) of a row; without centring the mean is 0 (rms_norm).
template <class T>
struct RowStatistics {
  const T* x;
  T *mean, *rstd;
  int64_t d;
  T eps;
  bool centre;

  S2T_HD void operator()(int64_t row) const {
    const T* r = x + row * d;
    T m = 0;
    if (centre)
      for (int64_t i = 0; i < d; ++i) m += r[i];
    m /= T(d);
    T v = 0;
    for (int64_t i = 0; i < d; ++i) v += (r[i] - m) * (r[i] - m);
    mean[row] = m;
    rstd[row] = T(1) / std::sqrt(v / T(d) + eps);
  }
};

template <class T>
struct NormForward {  // y = (x - mean) rstd gamma + beta; beta may be null
  const T *x, *gamma, *beta, *mean, *rstd;
  T* y;
  int64_t d;

  S2T_HD void operator()(int64_t row) const {
    for (int64_t i = 0; i < d; ++i) {
      const T hat = (x[row * d + i] - mean[row]) * rstd[row];
      y[row * d + i] = hat * gamma[i] + (beta ? beta[i] : T(0));
    }
  }
};

template <class T>
struct NormInputBackward {  // dx = rstd (g - mean(g) - hat mean(g hat)), g = dy gamma
  const T *x, *gamma, *mean, *rstd, *dy;
  T* dx;
  int64_t d;
  bool centre;

  S2T_HD void operator()(int64_t row) const {
    const T *xr = x + row * d, *gr = dy + row * d;
    T sum = 0, dot = 0;
    for (int64_t i = 0; i < d; ++i) {
      const T g = gr[i] * gamma[i];
      sum += g;
      dot += g * (xr[i] - mean[row]) * rstd[row];
    }
    sum = centre ? sum / T(d) : T(0);
    dot /= T(d);
    for (int64_t i = 0; i < d; ++i)
      dx[row * d + i] =
          rstd[row] * (gr[i] * gamma[i] - sum - (xr[i] - mean[row]) * rstd[row] * dot);
  }
};

template <class T>
struct NormWeightBackward {  // one item per feature; either output may be null
  const T *x, *mean, *rstd, *dy;
  T *dgamma, *dbeta;
  int64_t d, rows;

  S2T_HD void operator()(int64_t i) const {
    T g = 0, b = 0;
    for (int64_t r = 0; r < rows; ++r) {
      g += dy[r * d + i] * (x[r * d + i] - mean[r]) * rstd[r];
      b += dy[r * d + i];
    }
    if (dgamma) dgamma[i] = g;
    if (dbeta) dbeta[i] = b;
  }
};

template <class T>
struct SoftmaxForward {
  const T* x;
  T* y;
  int64_t d;

  S2T_HD void operator()(int64_t row) const {
    const T* r = x + row * d;
    T top = r[0], sum = 0;
    for (int64_t i = 1; i < d; ++i) top = r[i] > top ? r[i] : top;
    for (int64_t i = 0; i < d; ++i) sum += y[row * d + i] = std::exp(r[i] - top);
    for (int64_t i = 0; i < d; ++i) y[row * d + i] /= sum;
  }
};

template <class T>
struct SoftmaxBackward {  // dx = y (dy - sum(dy y))
  const T *y, *dy;
  T* dx;
  int64_t d;

  S2T_HD void operator()(int64_t row) const {
    T dot = 0;
    for (int64_t i = 0; i < d; ++i) dot += dy[row * d + i] * y[row * d + i];
    for (int64_t i = 0; i < d; ++i) dx[row * d + i] = y[row * d + i] * (dy[row * d + i] - dot);
  }
};

}  // namespace s2t
