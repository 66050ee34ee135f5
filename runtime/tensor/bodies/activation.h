// Elementwise functions y = f(x) with their derivatives, and the gated pairs y = f(gate) * up.
#pragma once

#include <cmath>

#include "runtime/tensor/bodies/hd.h"

namespace s2t {

struct Gelu {  // x Phi(x), the exact (erf) form
  template <class T>
  S2T_HD static T f(T x) {
    return x * T(0.5) * (T(1) + std::erf(x * T(0.70710678118654752440)));
  }
  template <class T>
  S2T_HD static T df(T x) {
    const T cdf = T(0.5) * (T(1) + std::erf(x * T(0.70710678118654752440)));
    return cdf + x * T(0.39894228040143267794) * std::exp(-T(0.5) * x * x);
  }
};

struct GeluTanh {  // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  template <class T>
  S2T_HD static T inner(T x) {
    return T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
  }
  template <class T>
  S2T_HD static T f(T x) {
    return T(0.5) * x * (T(1) + std::tanh(inner(x)));
  }
  template <class T>
  S2T_HD static T df(T x) {
    const T t = std::tanh(inner(x));
    const T slope = T(0.79788456080286535588) * (T(1) + T(3 * 0.044715) * x * x);
    return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * slope;
  }
};

struct Relu {  // the derivative at 0 is 0, as PyTorch has it
  template <class T>
  S2T_HD static T f(T x) {
    return x > T(0) ? x : T(0);
  }
  template <class T>
  S2T_HD static T df(T x) {
    return x > T(0) ? T(1) : T(0);
  }
};

struct ReluSquared {
  template <class T>
  S2T_HD static T f(T x) {
    return x > T(0) ? x * x : T(0);
  }
  template <class T>
  S2T_HD static T df(T x) {
    return x > T(0) ? T(2) * x : T(0);
  }
};

struct Sigmoid {
  template <class T>
  S2T_HD static T f(T x) {
    return T(1) / (T(1) + std::exp(-x));
  }
  template <class T>
  S2T_HD static T df(T x) {
    const T s = f(x);
    return s * (T(1) - s);
  }
};

struct Silu {
  template <class T>
  S2T_HD static T f(T x) {
    return x * Sigmoid::f(x);
  }
  template <class T>
  S2T_HD static T df(T x) {
    const T s = Sigmoid::f(x);
    return s * (T(1) + x * (T(1) - s));
  }
};

struct Tanh {
  template <class T>
  S2T_HD static T f(T x) {
    return std::tanh(x);
  }
  template <class T>
  S2T_HD static T df(T x) {
    const T t = std::tanh(x);
    return T(1) - t * t;
  }
};

template <class F, class T>
struct UnaryForward {
  const T* x;
  T* y;
  S2T_HD void operator()(int64_t i) const { y[i] = F::f(x[i]); }
};

template <class F, class T>
struct UnaryBackward {
  const T *x, *dy;
  T* dx;
  S2T_HD void operator()(int64_t i) const { dx[i] = dy[i] * F::df(x[i]); }
};

template <class F, class T>
struct GatedForward {
  const T *gate, *up;
  T* y;
  S2T_HD void operator()(int64_t i) const { y[i] = F::f(gate[i]) * up[i]; }
};

template <class F, class T>
struct GatedBackward {
  const T *gate, *up, *dy;
  T *dgate, *dup;  // either may be null: not wanted
  S2T_HD void operator()(int64_t i) const {
    if (dgate) dgate[i] = dy[i] * up[i] * F::df(gate[i]);
    if (dup) dup[i] = dy[i] * F::f(gate[i]);
  }
};

// Dropout whose mask depends only on the element's place in the unsharded tensor, so that a shard
// drops exactly what the whole op drops there. `rank` dims of local sizes `size`.
inline constexpr int kMaxDims = 12;

struct WholePlace {
  int rank = 0;
  int64_t size[kMaxDims] = {}, offset[kMaxDims] = {}, global[kMaxDims] = {};

  S2T_HD int64_t operator()(int64_t local) const {
    int64_t place = 0, stride = 1;
    for (int d = rank; d-- > 0;) {
      place += (local % size[d] + offset[d]) * stride;
      local /= size[d];
      stride *= global[d];
    }
    return place;
  }
};

// splitmix64: a uniform number in [0, 1) per (seed, place).
S2T_HD inline double uniform(uint64_t seed, uint64_t place) {
  uint64_t z = place + (seed + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * (1.0 / 9007199254740992.0);
}

template <class T>
struct Dropout {  // its own backward: dx = mask * dy / (1 - p)
  const T* x;
  T* y;
  WholePlace place;
  uint64_t seed;
  double p;
  S2T_HD void operator()(int64_t i) const {
    const bool drop = uniform(seed, static_cast<uint64_t>(place(i))) < p;
    y[i] = drop ? T(0) : x[i] / T(1 - p);
  }
};

}  // namespace s2t
