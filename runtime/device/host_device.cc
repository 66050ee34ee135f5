#include "runtime/device/host_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "analyzer/base/text.h"
#include "runtime/device/float16.h"

namespace s2t {
namespace {

double widen(float x) {
  return x;
}
double widen(double x) {
  return x;
}
float narrow(double x, float) {
  return static_cast<float>(x);
}
double narrow(double x, double) {
  return x;
}
Float16 narrow(double x, Float16) {
  return narrow_f16(static_cast<float>(x));
}
BFloat16 narrow(double x, BFloat16) {
  return narrow_bf16(static_cast<float>(x));
}

// One row of c at a time in a row of f64 sums; k is the outer loop, so that rows of b stream. The
// order of additions depends on k alone: splitting m or n changes no bit of the result.
template <class T>
void multiply(const Gemm& g, const T* a, const T* b, T* c) {
  std::vector<double> row(static_cast<size_t>(g.n));
  for (int64_t i = 0; i < g.m; ++i) {
    std::fill(row.begin(), row.end(), 0.0);
    for (int64_t p = 0; p < g.k; ++p) {
      const double left = widen(g.transpose_a ? a[p * g.lda + i] : a[i * g.lda + p]);
      const T* right = g.transpose_b ? b + p : b + p * g.ldb;
      const int64_t step = g.transpose_b ? g.ldb : 1;
      for (int64_t j = 0; j < g.n; ++j)
        row[static_cast<size_t>(j)] += left * widen(right[j * step]);
    }
    for (int64_t j = 0; j < g.n; ++j) {
      T& out = c[i * g.ldc + j];
      const double kept = g.beta == 0 ? 0.0 : g.beta * widen(out);
      out = narrow(g.alpha * row[static_cast<size_t>(j)] + kept, T{});
    }
  }
}

template <class T>
void multiply_batch(const Gemm& g) {
  for (int64_t i = 0; i < g.batch; ++i)
    multiply(g, static_cast<const T*>(g.a) + i * g.stride_a,
             static_cast<const T*>(g.b) + i * g.stride_b, static_cast<T*>(g.c) + i * g.stride_c);
}

}  // namespace

void* HostDevice::allocate(size_t bytes) {
  const size_t at_least_one = std::max<size_t>(bytes, 1);
  void* p = std::malloc(at_least_one);
  if (p == nullptr)
    throw DeviceError(fmt::format("out of memory: {} bytes on host", commas(bytes)));
  std::memset(p, 0xff, at_least_one);
  return p;
}

void HostDevice::free(void* pointer) noexcept {
  std::free(pointer);
}

void HostDevice::copy_in(void* device, const void* host, size_t bytes) {
  copy(device, host, bytes);
}

void HostDevice::copy_out(void* host, const void* device, size_t bytes) {
  copy(host, device, bytes);
}

void HostDevice::copy(void* to, const void* from, size_t bytes) {
  if (bytes != 0) std::memmove(to, from, bytes);
}

void HostDevice::zero(void* device, size_t bytes) {
  if (bytes != 0) std::memset(device, 0, bytes);
}

void HostDevice::gemm(const Gemm& g) {
  switch (g.dtype) {
    case DType::f32:
      return multiply_batch<float>(g);
    case DType::f64:
      return multiply_batch<double>(g);
    case DType::f16:
      return multiply_batch<Float16>(g);
    case DType::bf16:
      return multiply_batch<BFloat16>(g);
    default:
      throw DeviceError(fmt::format("no matrix product of {}", info(g.dtype).name));
  }
}

HostDevice& host_device() {
  static HostDevice device;
  return device;
}

}  // namespace s2t
