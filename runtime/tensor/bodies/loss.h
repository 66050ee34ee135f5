// Losses and the pieces of cross-entropy; rows of v logits, possibly a window of the vocabulary.
#pragma once

#include <cmath>

#include "runtime/tensor/bodies/hd.h"

namespace s2t {

template <class T>
struct Squares {  // sum((y - target)^2) / count; target may be null. One item.
  const T *y, *target;
  T* loss;
  int64_t n;
  double count;
  S2T_HD void operator()(int64_t) const {
    double sum = 0;  // of very many terms
    for (int64_t i = 0; i < n; ++i) {
      const double d = y[i] - (target ? target[i] : T(0));
      sum += d * d;
    }
    loss[0] = T(sum / count);
  }
};

template <class T>
struct SquaresBackward {
  const T *y, *target, *dloss;
  T *dy, *dtarget;  // either may be null
  double count;
  S2T_HD void operator()(int64_t i) const {
    const T g = T(2) * (y[i] - (target ? target[i] : T(0))) / T(count) * dloss[0];
    if (dy) dy[i] = g;
    if (dtarget) dtarget[i] = -g;
  }
};

template <class T>
struct RowMax {
  const T* z;
  T* max;
  int64_t v;
  S2T_HD void operator()(int64_t row) const {
    T top = -T(INFINITY);  // of no logits at all, where a shard is empty
    for (int64_t i = 0; i < v; ++i) top = z[row * v + i] > top ? z[row * v + i] : top;
    max[row] = top;
  }
};

template <class T>
struct Pick {  // z[row, ids[row]], 0 where the id is in another rank's part of the vocabulary
  const T* z;
  const int64_t* ids;
  T* target;
  int64_t v, first;
  S2T_HD void operator()(int64_t row) const {
    const int64_t i = ids[row] - first;
    target[row] = i >= 0 && i < v ? z[row * v + i] : T(0);
  }
};

template <class T>
struct PickBackward {
  const int64_t* ids;
  const T* dtarget;
  T* dz;  // zeroed
  int64_t v, first;
  S2T_HD void operator()(int64_t row) const {
    const int64_t i = ids[row] - first;
    if (i >= 0 && i < v) dz[row * v + i] = dtarget[row];
  }
};

template <class T>
struct ShiftedExp {  // exp(z - max)
  const T *z, *max;
  T* e;
  int64_t v;
  S2T_HD void operator()(int64_t i) const { e[i] = std::exp(z[i] - max[i / v]); }
};

template <class T>
struct Product {  // out = a * b
  const T *a, *b;
  T* out;
  S2T_HD void operator()(int64_t i) const { out[i] = a[i] * b[i]; }
};

template <class T>
struct RowLoss {  // log(sum) + max - target
  const T *sum, *max, *target;
  T* rows;
  S2T_HD void operator()(int64_t i) const { rows[i] = std::log(sum[i]) + max[i] - target[i]; }
};

template <class T>
struct RowLossBackward {
  const T *sum, *drows;
  T *dsum, *dtarget;  // either may be null
  S2T_HD void operator()(int64_t i) const {
    if (dsum) dsum[i] = drows[i] / sum[i];
    if (dtarget) dtarget[i] = -drows[i];
  }
};

}  // namespace s2t
