// The op kernels of a GPU: the same bodies and rows as on the host, run by CUDA threads.
//
// A sum of products that is a (batched) matrix product goes to cuBLAS, everything else is one thread
// per item without shared memory: plain, deterministic (nothing is summed by more than one thread)
// and as accurate as the host. Linked into the module that has a CUDA device, which finds the table by the name
// `s2t_cuda_kernels`. Not known here: any op.
#include <cstdint>

#include "runtime/device/device.h"
#include "runtime/device/launch.cuh"
#include "runtime/tensor/rows/dispatch.h"
#include "runtime/tensor/rows/gemm_plan.h"

namespace s2t {
namespace {

template <class Body>
__host__ __device__ inline void apply_body(int64_t i, Body body) {
  body(i);
}

void must_launch(cudaError_t code) {
  if (code != cudaSuccess)
    throw DeviceError(std::string("kernel launch: ") + cudaGetErrorString(code));
}

class CudaRun {
 public:
  explicit CudaRun(Device& device) : device_(device) {}

  template <class T>
  class Array {
   public:
    Array(Device& device, int64_t n) : buffer_(device, static_cast<size_t>(n) * sizeof(T)) {}
    T* data() const { return static_cast<T*>(buffer_.data()); }

   private:
    DeviceBuffer buffer_;
  };

  template <class Body>
  void items(int64_t n, const Body& body) {
    const auto stream = static_cast<cudaStream_t>(device_.stream());
    must_launch(launch<apply_body<Body>>(stream, n, body));
  }
  template <class T>
  void contract(const Contract<T>& c) {
    if (const auto product = as_gemm(c))
      device_.gemm(*product);
    else
      items(c.items(), c);
  }
  template <class T>
  Array<T> zeros(int64_t n) {
    Array<T> array(device_, n);
    device_.zero(array.data(), static_cast<size_t>(n) * sizeof(T));
    return array;
  }
  template <class T>
  Array<T> upload(const std::vector<T>& elements) {
    Array<T> array(device_, static_cast<int64_t>(elements.size()));
    device_.copy_in(array.data(), elements.data(), elements.size() * sizeof(T));
    return array;
  }
  template <class T>
  std::vector<T> download(const T* data, int64_t n) {
    std::vector<T> elements(static_cast<size_t>(n));
    device_.copy_out(elements.data(), data, elements.size() * sizeof(T));
    return elements;
  }

 private:
  Device& device_;
};

std::vector<Tensor> forward_on_gpu(Device& device, const OpCall& call,
                                   std::span<const Tensor> inputs) {
  CudaRun run(device);
  return forward_on(run, call, inputs);
}

std::vector<std::optional<Tensor>> backward_on_gpu(Device& device, const OpCall& call,
                                                   std::span<const Tensor> inputs,
                                                   std::span<const Tensor> outputs,
                                                   std::span<const std::optional<Tensor>> gradients,
                                                   const std::vector<bool>& wanted) {
  CudaRun run(device);
  return backward_on(run, call, inputs, outputs, gradients, wanted);
}

constexpr Kernels kCudaKernels{"cuda", forward_on_gpu, backward_on_gpu};

}  // namespace
}  // namespace s2t

extern "C" __attribute__((visibility("hidden"))) const void* s2t_cuda_kernels() {
  return &s2t::kCudaKernels;
}
