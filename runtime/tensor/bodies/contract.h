// The one generic evaluator: out[..] += alpha * sum over the rest of the product of the operands.
//
// Every tensor is addressed by factors: its stride along a factor, 0 where it lacks it. With the
// output's factors first, `x[* k] w[n k] -> y[* n]` is sum_k x w; swapping roles gives its
// gradients (dx: output x, operands dy and w). One operand makes copies, transposes, broadcasts and
// sums.
#pragma once

#include "runtime/tensor/bodies/hd.h"

namespace s2t {

inline constexpr int kMaxFactors = 16;
inline constexpr int kMaxTerms = 6;

template <class T>
struct Contract {
  int out_factors = 0;  // the first ones; the others are summed over
  int factors = 0;
  int terms = 0;
  int64_t size[kMaxFactors] = {};
  int64_t out_stride[kMaxFactors] = {};
  int64_t in_stride[kMaxTerms][kMaxFactors] = {};
  const T* in[kMaxTerms] = {};
  T* out = nullptr;
  T alpha = 1;

  S2T_HD int64_t items() const { return product(0, out_factors); }
  S2T_HD int64_t summed() const { return product(out_factors, factors); }

  S2T_HD void operator()(int64_t item) const {
    int64_t to = 0, from[kMaxTerms] = {};
    for (int f = out_factors; f-- > 0;) {
      const int64_t c = item % size[f];
      item /= size[f];
      to += c * out_stride[f];
      for (int t = 0; t < terms; ++t) from[t] += c * in_stride[t][f];
    }
    out[to] += alpha * sum(from);
  }

  S2T_HD int64_t product(int begin, int end) const {
    int64_t n = 1;
    for (int f = begin; f < end; ++f) n *= size[f];
    return n;
  }

 private:
  // An odometer over the summed factors, the last fastest.
  S2T_HD T sum(const int64_t* from) const {
    double total = 0;  // of very many terms, where a loss is a mean
    const int64_t n = summed();
    for (int64_t i = 0; i < n; ++i) {
      int64_t at[kMaxTerms], rest = i;
      for (int t = 0; t < terms; ++t) at[t] = from[t];
      for (int f = factors; f-- > out_factors;) {
        const int64_t c = rest % size[f];
        rest /= size[f];
        for (int t = 0; t < terms; ++t) at[t] += c * in_stride[t][f];
      }
      T p = 1;
      for (int t = 0; t < terms; ++t) p *= in[t][at[t]];
      total += p;
    }
    return T(total);
  }
};

}  // namespace s2t
