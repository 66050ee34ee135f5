// Stand-in for the part of cuBLAS that the product calls: matrix products, in stream order.
//
// Every product becomes one host function on the handle's stream, so it races with whatever does
// not wait for that stream, as a kernel would.
#include <cublas_v2.h>

#include <algorithm>
#include <vector>

#include "tests/standins/element.h"
#include "tests/standins/fault.h"
#include "tests/standins/hooks.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
};

namespace s2t::standin {
namespace {

// c = alpha op(a) op(b) + beta c; column-major; op(a) is m x k, op(b) is k x n.
struct Product {
  bool transpose_a, transpose_b;
  int m, n, k, batch;
  double alpha, beta;  // exact also for float scalars
  const char* a;
  const char* b;
  char* c;
  cudaDataType a_type, b_type, c_type;
  long lda, ldb, ldc;
  long stride_a, stride_b, stride_c;  // elements
};

size_t size_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_64F:
      return 8;
    case CUDA_R_32F:
      return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    default:
      return 0;
  }
}

template <class T>
T read_as(const char* base, long index) {
  T value;
  std::memcpy(&value, base + index * static_cast<long>(sizeof(T)), sizeof(T));
  return value;
}

// Loaded and stored through the compute type C: float, or double for float64.
template <class C>
C load(const char* base, cudaDataType type, long index) {
  switch (type) {
    case CUDA_R_16F:
      return widen(read_as<Half>(base, index));
    case CUDA_R_16BF:
      return widen(read_as<BFloat16>(base, index));
    case CUDA_R_32F:
      return read_as<float>(base, index);
    default:
      return static_cast<C>(read_as<double>(base, index));
  }
}

template <class T, class V>
void write_as(char* base, long index, V value) {
  T narrowed;
  narrow(static_cast<compute_t<T>>(value), &narrowed);
  std::memcpy(base + index * static_cast<long>(sizeof(T)), &narrowed, sizeof(T));
}

template <class C>
void store(char* base, cudaDataType type, long index, C value) {
  switch (type) {
    case CUDA_R_16F:
      return write_as<Half>(base, index, value);
    case CUDA_R_16BF:
      return write_as<BFloat16>(base, index, value);
    case CUDA_R_32F:
      return write_as<float>(base, index, value);
    default:
      return write_as<double>(base, index, value);
  }
}

// rows x columns of op(x), row-major.
template <class C>
std::vector<C> unpack(const char* base, cudaDataType type, bool transposed, int rows, int columns,
                      long ld) {
  std::vector<C> result(size_t(rows) * columns);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      result[size_t(r) * columns + c] = load<C>(base, type, transposed ? c + r * ld : r + c * ld);
    }
  }
  return result;
}

template <class C>
void multiply_one(const Product& p, int index) {
  const char* a = p.a + index * p.stride_a * static_cast<long>(size_of(p.a_type));
  const char* b = p.b + index * p.stride_b * static_cast<long>(size_of(p.b_type));
  char* c = p.c + index * p.stride_c * static_cast<long>(size_of(p.c_type));
  const auto left = unpack<C>(a, p.a_type, p.transpose_a, p.m, p.k, p.lda);
  const auto right = unpack<C>(b, p.b_type, p.transpose_b, p.k, p.n, p.ldb);
  const C alpha = static_cast<C>(p.alpha), beta = static_cast<C>(p.beta);
  std::vector<C> row(static_cast<size_t>(p.n));
  for (int i = 0; i < p.m; ++i) {
    std::fill(row.begin(), row.end(), C{0});
    for (int t = 0; t < p.k; ++t) {
      const C factor = left[size_t(i) * p.k + t];
      for (int j = 0; j < p.n; ++j) row[j] += factor * right[size_t(t) * p.n + j];
    }
    for (int j = 0; j < p.n; ++j) {
      const long at = i + j * p.ldc;
      const C old = beta == 0 ? C{0} : beta * load<C>(c, p.c_type, at);  // 0 never reads c
      store<C>(c, p.c_type, at, alpha * row[j] + old);
    }
  }
}

// Does a batch of matrices, stored as rows x columns with this leading dimension, lie in one
// device allocation?
bool fits(const char* base, cudaDataType type, int rows, int columns, long ld, long stride,
          int batch) {
  if (rows == 0 || columns == 0 || batch == 0) return true;
  const long last = (batch - 1) * stride + (columns - 1) * ld + rows;
  return s2t_stand_in_room(base) >= static_cast<size_t>(last) * size_of(type);
}

cublasStatus_t check(const Product& p) {
  if (!size_of(p.a_type) || p.a_type != p.b_type || !size_of(p.c_type)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const int rows_a = p.transpose_a ? p.k : p.m, rows_b = p.transpose_b ? p.n : p.k;
  const bool sizes = p.m >= 0 && p.n >= 0 && p.k >= 0 && p.batch >= 0;
  if (!sizes || p.lda < std::max(1, rows_a) || p.ldb < std::max(1, rows_b) ||
      p.ldc < std::max(1, p.m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const int columns_a = p.transpose_a ? p.m : p.k, columns_b = p.transpose_b ? p.k : p.n;
  const bool inside = fits(p.a, p.a_type, rows_a, columns_a, p.lda, p.stride_a, p.batch) &&
                      fits(p.b, p.b_type, rows_b, columns_b, p.ldb, p.stride_b, p.batch) &&
                      fits(p.c, p.c_type, p.m, p.n, p.ldc, p.stride_c, p.batch);
  return inside ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

void multiply(void* data) {
  auto* p = static_cast<Product*>(data);
  const auto one = p->a_type == CUDA_R_64F ? multiply_one<double> : multiply_one<float>;
  for (int i = 0; i < p->batch; ++i) one(*p, i);
  delete p;
}

cublasStatus_t enqueue(cublasHandle_t handle, const Product& p) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (handle->pointer_mode != CUBLAS_POINTER_MODE_HOST) return CUBLAS_STATUS_NOT_SUPPORTED;
  const cublasStatus_t status = check(p);
  if (status != CUBLAS_STATUS_SUCCESS || p.m == 0 || p.n == 0 || p.batch == 0) return status;
  const bool launched = cudaLaunchHostFunc(handle->stream, multiply, new Product(p)) == cudaSuccess;
  return launched ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace
}  // namespace s2t::standin

using namespace s2t::standin;

extern "C" {

const char* s2t_stand_in() {
  return "cublas";
}

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  int devices = 0;
  if (fault("no_cublas") || cudaGetDeviceCount(&devices)) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->math_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  handle->pointer_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}
const char* cublasGetStatusString(cublasStatus_t status) {
  return cublasGetStatusName(status);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a,
                                          cublasOperation_t op_b, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType a_type,
                                          int lda, long long stride_a, const void* b,
                                          cudaDataType b_type, int ldb, long long stride_b,
                                          const void* beta, void* c, cudaDataType c_type, int ldc,
                                          long long stride_c, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  const bool f32 = compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_PEDANTIC;
  const bool f64 = compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC;
  const bool wide = a_type == CUDA_R_64F && c_type == CUDA_R_64F;
  const bool narrow_types = a_type != CUDA_R_64F && c_type != CUDA_R_64F;
  if (!(f32 && narrow_types) && !(f64 && wide)) return CUBLAS_STATUS_NOT_SUPPORTED;
  // The scalars have the compute type.
  const auto scalar = [f64](const void* x) {
    return f64 ? *static_cast<const double*>(x) : *static_cast<const float*>(x);
  };
  return enqueue(handle, {op_a != CUBLAS_OP_N,
                          op_b != CUBLAS_OP_N,
                          m,
                          n,
                          k,
                          batch,
                          scalar(alpha),
                          scalar(beta),
                          static_cast<const char*>(a),
                          static_cast<const char*>(b),
                          static_cast<char*>(c),
                          a_type,
                          b_type,
                          c_type,
                          lda,
                          ldb,
                          ldc,
                          stride_a,
                          stride_b,
                          stride_c});
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void* alpha, const void* a,
                            cudaDataType a_type, int lda, const void* b, cudaDataType b_type,
                            int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algo) {
  return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, 0, b,
                                    b_type, ldb, 0, beta, c, c_type, ldc, 0, 1, compute, algo);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a,
                                         cublasOperation_t op_b, int m, int n, int k,
                                         const float* alpha, const float* a, int lda,
                                         long long stride_a, const float* b, int ldb,
                                         long long stride_b, const float* beta, float* c, int ldc,
                                         long long stride_c, int batch) {
  return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, a, CUDA_R_32F, lda,
                                    stride_a, b, CUDA_R_32F, ldb, stride_b, beta, c, CUDA_R_32F,
                                    ldc, stride_c, batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                              int m, int n, int k, const float* alpha, const float* a, int lda,
                              const float* b, int ldb, const float* beta, float* c, int ldc) {
  return cublasSgemmStridedBatched(handle, op_a, op_b, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta,
                                   c, ldc, 0, 1);
}

}  // extern "C"
