// The element types of matrices and reductions, for the cuBLAS and NCCL stand-ins.
//
// 16-bit floats are storage: arithmetic happens in `compute_t<T>` and is rounded once, to nearest
// even, when it is stored.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace s2t::standin {

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

inline float as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline uint32_t as_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float widen(BFloat16 x) {
  return as_float(uint32_t{x.bits} << 16);
}
inline float widen(Half x) {
  const uint32_t sign = uint32_t(x.bits & 0x8000) << 16;
  const uint32_t exponent = (x.bits >> 10) & 31, mantissa = x.bits & 1023;
  if (exponent == 31) return as_float(sign | 0x7F800000 | mantissa << 13);
  if (exponent == 0) {  // zero and subnormals: mantissa times 2^-24
    const float magnitude = static_cast<float>(mantissa) * as_float(0x33800000);
    return sign ? -magnitude : magnitude;
  }
  return as_float(sign | (exponent + 112) << 23 | mantissa << 13);
}
template <class T>
T widen(T x) {
  return x;
}

inline void narrow(float value, BFloat16* out) {
  const uint32_t bits = as_bits(value);
  const bool nan = value != value;
  out->bits =
      static_cast<uint16_t>(nan ? (bits >> 16) | 0x40 : (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
inline void narrow(float value, Half* out) {
  const uint32_t bits = as_bits(value), sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7FFFFFFF;
  uint32_t result;
  if (magnitude > 0x7F800000) {
    result = 0x7E00;  // NaN
  } else if (magnitude >= 0x477FF000) {
    result = 0x7C00;  // rounds to infinity
  } else if (magnitude < 0x38800000) {
    // Subnormal: adding 0.5 leaves the value, in units of 2^-24 and rounded, in the low bits.
    result = as_bits(as_float(magnitude) + 0.5f) - 0x3F000000;
  } else {
    const uint32_t rebased = magnitude - (112u << 23);
    result = (rebased + 0xFFF + ((rebased >> 13) & 1)) >> 13;
  }
  out->bits = static_cast<uint16_t>(sign | result);
}
template <class T>
void narrow(T value, T* out) {
  *out = value;
}

template <class T>
using compute_t = decltype(widen(T{}));

}  // namespace s2t::standin
