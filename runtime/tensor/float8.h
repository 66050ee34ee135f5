// float8 e4m3fn (4 exponent bits, 3 mantissa bits, no infinities) to float and back, rounded to
// nearest even; what exceeds 448 becomes NaN, as PyTorch's cast does.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace s2t {

struct Float8 {
  uint8_t bits = 0;
};

inline Float8 narrow_f8(float x) {
  constexpr int kBias = 7, kMantissa = 3;
  const uint32_t sign = std::signbit(x) ? 0x80u : 0u;
  const double a = std::fabs(static_cast<double>(x));
  if (!(a <= 512)) return {static_cast<uint8_t>(sign | 0x7fu)};
  if (a == 0) return {static_cast<uint8_t>(sign)};
  int e = 0;
  std::frexp(a, &e);  // a = m 2^e with m in [0.5, 1)
  const int exponent = std::max(e - 1, 1 - kBias);
  // In [8, 16] for a normal number; a carry to 16 lands in the exponent by itself.
  const auto q = static_cast<uint32_t>(std::nearbyint(std::ldexp(a, kMantissa - exponent)));
  const uint32_t bits = (static_cast<uint32_t>(exponent + kBias - 1) << kMantissa) + q;
  return {static_cast<uint8_t>(sign | std::min(bits, 0x7fu))};
}

inline float widen(Float8 x) {
  if ((x.bits & 0x7fu) == 0x7fu) return std::numeric_limits<float>::quiet_NaN();
  const int exponent = (x.bits >> 3) & 0xf;
  const float m = static_cast<float>((x.bits & 7) + (exponent ? 8 : 0));
  const float magnitude = std::ldexp(m, std::max(exponent, 1) - 7 - 3);
  return x.bits & 0x80 ? -magnitude : magnitude;
}

}  // namespace s2t
