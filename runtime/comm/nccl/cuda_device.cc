#include "runtime/comm/nccl/cuda_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "analyzer/base/text.h"
#include "runtime/comm/error.h"
#include "runtime/comm/nccl/cuda_check.h"

// The op kernels' table, if they were linked into this module (their author says what is in it).
extern "C" [[gnu::weak]] const void* s2t_cuda_kernels();

namespace s2t {
namespace {

using Clock = std::chrono::steady_clock;

struct BlasType {
  cudaDataType_t data;
  cublasComputeType_t compute;
};

BlasType blas_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::f64:
      return {CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case DType::f16:
      return {CUDA_R_16F, CUBLAS_COMPUTE_32F};
    case DType::bf16:
      return {CUDA_R_16BF, CUBLAS_COMPUTE_32F};
    default:
      throw DeviceError(fmt::format("no matrix product of {}", info(dtype).name));
  }
}

// alpha and beta are read in the compute type.
union Scalar {
  float single;
  double full;
};

Scalar scalar(double x, DType dtype) {
  Scalar s{};
  if (dtype == DType::f64)
    s.full = x;
  else
    s.single = static_cast<float>(x);
  return s;
}

}  // namespace

CudaDevice::CudaDevice(int ordinal, std::chrono::milliseconds timeout, std::function<void()> glance)
    : timeout_(timeout), glance_(std::move(glance)) {
  must(cudaSetDevice(ordinal), "cudaSetDevice");
  must(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  must(cudaStreamCreateWithFlags(&communication_, cudaStreamNonBlocking),
       "cudaStreamCreateWithFlags");
  must(cudaEventCreateWithFlags(&computed_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  must(cudaEventCreateWithFlags(&communicated_, cudaEventDisableTiming),
       "cudaEventCreateWithFlags");
  must(cublasCreate(&blas_), "cublasCreate");
  must(cublasSetStream(blas_, compute_), "cublasSetStream");
}

CudaDevice::~CudaDevice() {
  if (abandoned_) return;
  cublasDestroy(blas_);
  cudaEventDestroy(computed_);
  cudaEventDestroy(communicated_);
  cudaStreamDestroy(compute_);
  cudaStreamDestroy(communication_);
}

void* CudaDevice::allocate(size_t bytes) {
  const size_t at_least_one = std::max<size_t>(bytes, 1);
  void* pointer = nullptr;
  const cudaError_t code = cudaMalloc(&pointer, at_least_one);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // forget it: running out of memory does not spoil the context
    throw DeviceError(fmt::format("out of memory: {} bytes on cuda", commas(bytes)));
  }
  must(code, "cudaMalloc");
  must(cudaMemsetAsync(pointer, 0xff, at_least_one, compute_), "cudaMemsetAsync");
  return pointer;
}

// cudaFree waits for the GPU, which must not happen when the GPU waits for a rank that is gone.
void CudaDevice::free(void* pointer) noexcept {
  if (!abandoned_) cudaFree(pointer);
}

void CudaDevice::copy_in(void* device, const void* host, size_t bytes) {
  if (bytes == 0) return;
  must(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, compute_), "cudaMemcpyAsync");
  synchronize();
}

void CudaDevice::copy_out(void* host, const void* device, size_t bytes) {
  if (bytes == 0) return;
  synchronize();  // first, so that the wait can be given up; a copy to pageable memory cannot
  must(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, compute_), "cudaMemcpyAsync");
  synchronize();
}

void CudaDevice::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, compute_), "cudaMemcpyAsync");
}

void CudaDevice::zero(void* device, size_t bytes) {
  if (bytes != 0) must(cudaMemsetAsync(device, 0, bytes, compute_), "cudaMemsetAsync");
}

// cuBLAS is column-major: the row-major c = a b is its c' = b' a', with the same memory.
void CudaDevice::gemm(const Gemm& g) {
  const BlasType type = blas_type(g.dtype);
  const Scalar alpha = scalar(g.alpha, g.dtype), beta = scalar(g.beta, g.dtype);
  const auto op = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  if (g.m == 0 || g.n == 0 || g.batch == 0) return;
  must(cublasGemmStridedBatchedEx(
           blas_, op(g.transpose_b), op(g.transpose_a), static_cast<int>(g.n),
           static_cast<int>(g.m), static_cast<int>(g.k), &alpha, g.b, type.data,
           static_cast<int>(g.ldb), g.stride_b, g.a, type.data, static_cast<int>(g.lda), g.stride_a,
           &beta, g.c, type.data, static_cast<int>(g.ldc), g.stride_c, static_cast<int>(g.batch),
           type.compute, CUBLAS_GEMM_DEFAULT),
       "cublasGemmStridedBatchedEx");
}

void CudaDevice::synchronize() {
  const auto start = Clock::now();
  auto looked = start;
  cudaError_t code = cudaErrorNotReady;
  for (int spins = 0; (code = cudaStreamQuery(compute_)) == cudaErrorNotReady; ++spins) {
    if (spins > 100) ::usleep(20);
    const auto now = Clock::now();
    if (now - looked < std::chrono::milliseconds(100)) continue;
    looked = now;
    look(start);
  }
  must(code, "cudaStreamQuery");
  look(Clock::now());  // a collective that failed may have ended all the same
}

void CudaDevice::look(std::chrono::steady_clock::time_point start) {
  try {
    glance_();
    if (Clock::now() - start > timeout_)
      throw CommError(CommReason::timeout, "the GPU did not end its work in time");
  } catch (...) {
    abandoned_ = true;
    throw;
  }
}

const void* CudaDevice::extension(std::string_view wanted) const {
  return wanted == "kernels" && s2t_cuda_kernels != nullptr ? s2t_cuda_kernels() : nullptr;
}

void CudaDevice::communicate(const std::function<void(cudaStream_t)>& issue) {
  must(cudaEventRecord(computed_, compute_), "cudaEventRecord");
  must(cudaStreamWaitEvent(communication_, computed_, 0), "cudaStreamWaitEvent");
  issue(communication_);
  must(cudaEventRecord(communicated_, communication_), "cudaEventRecord");
  must(cudaStreamWaitEvent(compute_, communicated_, 0), "cudaStreamWaitEvent");
}

}  // namespace s2t
