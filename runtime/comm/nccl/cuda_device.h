// One GPU as a device: memory, copies and cuBLAS on a stream for computing, and a second stream for
// communication that is ordered against it by events.
//
// Known here: CUDA and cuBLAS. Not known here: NCCL; who communicates borrows `communication`.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>

#include "runtime/device/device.h"

namespace s2t {

class CudaDevice final : public Device {
 public:
  // `glance` is called every now and then while the host waits for the GPU, and when the wait is
  // over; it throws when there is nothing to wait for any more, or what was waited for has failed.
  // After that the device is abandoned: freeing becomes a no-op.
  CudaDevice(int ordinal, std::chrono::milliseconds timeout, std::function<void()> glance);
  ~CudaDevice() override;

  std::string_view name() const override { return "cuda"; }
  bool on_host() const override { return false; }
  void* allocate(size_t bytes) override;
  void free(void* pointer) noexcept override;
  void copy_in(void* device, const void* host, size_t bytes) override;
  void copy_out(void* host, const void* device, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void zero(void* device, size_t bytes) override;
  void gemm(const Gemm& g) override;
  void synchronize() override;
  void* stream() const override { return compute_; }
  const void* extension(std::string_view wanted) const override;

  // Runs `issue` on the communication stream: after all computing issued so far, before all later.
  void communicate(const std::function<void(cudaStream_t)>& issue);

 private:
  void look(std::chrono::steady_clock::time_point start);  // of the wait

  const std::chrono::milliseconds timeout_;
  const std::function<void()> glance_;
  bool abandoned_ = false;
  cudaStream_t compute_ = nullptr;
  cudaStream_t communication_ = nullptr;
  cudaEvent_t computed_ = nullptr;
  cudaEvent_t communicated_ = nullptr;
  cublasHandle_t blas_ = nullptr;
};

}  // namespace s2t
