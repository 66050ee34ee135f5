// CUDA, cuBLAS and NCCL report by code; here a code becomes an exception that says what was asked.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

namespace s2t {

// Throw DeviceError: "out of memory: ..." or "cudaX: <CUDA's text>".
void must(cudaError_t code, const char* what);
void must(cublasStatus_t code, const char* what);

// Throws CommError(transport) with NCCL's own last words.
void must(ncclResult_t code, const char* what, ncclComm_t comm = nullptr);

}  // namespace s2t
