// One rank of the self-test program, and what its scenarios share.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace s2t::selftest {

struct Rank {
  int rank, size;
  ncclComm_t world;
  cudaStream_t stream;
};

[[noreturn]] inline void give_up(const char* file, int line, const char* what, const char* why) {
  std::printf("%s:%d: %s: %s\n", file, line, what, why);
  std::exit(1);
}

#define REQUIRE(condition) \
  if (!(condition)) s2t::selftest::give_up(__FILE__, __LINE__, #condition, "false")
#define CUDA(call)                                    \
  if (const cudaError_t e = (call); e != cudaSuccess) \
  s2t::selftest::give_up(__FILE__, __LINE__, #call, cudaGetErrorString(e))
#define NCCL(call)                                     \
  if (const ncclResult_t e = (call); e != ncclSuccess) \
  s2t::selftest::give_up(__FILE__, __LINE__, #call, ncclGetLastError(nullptr))

// Device memory for `count` elements; filled from the host, read back in stream order.
template <class T>
class Array {
 public:
  explicit Array(size_t count) : count_(count) { CUDA(cudaMalloc(&data_, count * sizeof(T) + 1)); }
  Array(const std::vector<T>& values) : Array(values.size()) {
    CUDA(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { CUDA(cudaFree(data_)); }

  T* data() { return data_; }
  size_t size() const { return count_; }
  std::vector<T> read(cudaStream_t stream) {
    std::vector<T> values(count_);
    CUDA(cudaMemcpyAsync(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};

// A communicator out of `parent`, named.
ncclComm_t split(ncclComm_t parent, int color, int key, const char* name);

// The result of a kernel launch that has a CPU twin: x[i] = by * x[i] + i (kernels.cu).
cudaError_t scale(cudaStream_t stream, long count, float* x, float by);
// A kernel without a twin.
cudaError_t plain_kernel(cudaStream_t stream, float* x);

struct Scenario {
  const char* name;
  void (*run)(Rank&);
};
extern const Scenario kScenarios[];
extern const int kScenarioCount;

void values(Rank& rank);  // values.cc: every operation on every type

}  // namespace s2t::selftest
