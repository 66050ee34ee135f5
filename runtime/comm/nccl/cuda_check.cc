#include "runtime/comm/nccl/cuda_check.h"

#include <fmt/format.h>

#include "runtime/comm/error.h"
#include "runtime/device/device.h"

namespace s2t {

void must(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  throw DeviceError(fmt::format("{}: {}", what, cudaGetErrorString(code)));
}

void must(cublasStatus_t code, const char* what) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(fmt::format("{}: {}", what, cublasGetStatusString(code)));
}

void must(ncclResult_t code, const char* what, ncclComm_t comm) {
  if (code == ncclSuccess) return;
  const char* detail = ncclGetLastError(comm);
  throw CommError(CommReason::transport,
                  fmt::format("{}: {}{}{}", what, ncclGetErrorString(code),
                              detail != nullptr && *detail != '\0' ? "; " : "",
                              detail == nullptr ? "" : detail));
}

}  // namespace s2t
