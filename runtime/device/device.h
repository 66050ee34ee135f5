// What a rank computes on: memory, copies, one matrix product, one elementwise combination.
//
// Known here: the few things that communication and tensors need of a device. Not known here: op
// kernels (their author launches them on `stream()`), shapes, layouts, who the other ranks are.
// Work is issued in stream order; host pointers handed to a copy may be reused when it returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "analyzer/base/dtype.h"
#include "analyzer/base/units.h"

namespace s2t {

enum class ReduceOp : uint8_t { sum, max, min, avg };
std::string_view name_of(ReduceOp op);

// Out of memory, or a call of the device's library that failed; `what()` says which.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// c = alpha op(a) op(b) + beta c, row-major, `batch` times. op(a) is m x k, op(b) is k x n, c is
// m x n. `lda`, `ldb`, `ldc` are elements between stored rows; strides are elements between the
// matrices of a batch. f32 and f64 accumulate in f64 on the host; 16-bit floats in f32 at least.
struct Gemm {
  DType dtype = DType::f32;
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  int64_t lda = 0, ldb = 0, ldc = 0;
  int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  double alpha = 1, beta = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;  // "host", "cuda"
  virtual bool on_host() const = 0;           // may the CPU read these pointers directly?

  // Fresh memory holds no promise: it is poisoned (all bits one, a NaN) where that is cheap.
  virtual void* allocate(size_t bytes) = 0;  // never null; throws DeviceError
  virtual void free(void* pointer) noexcept = 0;

  virtual void copy_in(void* device, const void* host, size_t bytes) = 0;
  virtual void copy_out(void* host, const void* device, size_t bytes) = 0;  // waits
  virtual void copy(void* to, const void* from, size_t bytes) = 0;          // device to device
  virtual void zero(void* device, size_t bytes) = 0;

  virtual void gemm(const Gemm& g) = 0;

  // accumulator[i] = op(accumulator[i], x[i]); `avg` adds, the caller divides at the end.
  // The defaults go through the host.
  virtual void combine(void* accumulator, const void* x, Count count, DType dtype, ReduceOp op);
  virtual void divide(void* data, Count count, DType dtype, int divisor);

  virtual void synchronize() = 0;                   // wait for everything issued
  virtual void* stream() const { return nullptr; }  // native handle, null on the host

  // What only this device's module has, by name ("kernels": its op kernels' table); else null.
  virtual const void* extension(std::string_view) const { return nullptr; }
};

// Device memory with one owner.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(Device& device, size_t bytes)
      : device_(&device), data_(device.allocate(bytes)), bytes_(bytes) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_ != nullptr) device_->free(data_);
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// acc = op(acc, x) and data /= divisor on host memory, for every dtype but f8. Integers wrap; on
// booleans sum and max are "or", min is "and". Throws DeviceError for what has no meaning
// (f8, the average of integers).
void combine_on_host(void* accumulator, const void* x, Count count, DType dtype, ReduceOp op);
void divide_on_host(void* data, Count count, DType dtype, int divisor);

}  // namespace s2t
