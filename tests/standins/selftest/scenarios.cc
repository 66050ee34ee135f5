// What one rank does in each scenario; standins_test.cc says what must come of it.
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/standins/selftest/driver.h"

namespace s2t::selftest {

ncclComm_t split(ncclComm_t parent, int color, int key, const char* name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = name;
  ncclComm_t comm = nullptr;
  NCCL(ncclCommSplit(parent, color, key, &comm, &config));
  return comm;
}

namespace {

// Pairs of neighbours, in reversed order.
ncclComm_t pairs(const Rank& me) {
  const std::string name = "tp" + std::to_string(me.rank / 2);
  return split(me.world, me.rank / 2, -me.rank, name.c_str());
}

// The ranks of a split are ordered by key; a rank without a color gets nothing.
void groups(Rank& me) {
  const ncclComm_t tp = pairs(me);
  int count = 0, rank = -1, device = -1;
  NCCL(ncclCommCount(tp, &count));
  NCCL(ncclCommUserRank(tp, &rank));
  NCCL(ncclCommCuDevice(tp, &device));
  REQUIRE(count == 2 && rank == 1 - me.rank % 2 && device == me.rank);
  Array<float> mine(std::vector<float>{static_cast<float>(me.rank)}), both(2);
  NCCL(ncclAllGather(mine.data(), both.data(), 1, ncclFloat32, tp, me.stream));
  const auto got = both.read(me.stream);
  const float low = static_cast<float>(me.rank / 2 * 2);
  REQUIRE(got[0] == low + 1 && got[1] == low);
  ncclComm_t none = split(me.world, me.rank == 0 ? NCCL_SPLIT_NOCOLOR : 0, 0, "rest");
  REQUIRE((none == nullptr) == (me.rank == 0));
  if (none) NCCL(ncclCommDestroy(none));
  NCCL(ncclCommDestroy(tp));
}

// Kernel, product and collective on two streams that only events order.
void streams(Rank& me) {
  cudaStream_t compute;
  cudaEvent_t ready, done;
  CUDA(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
  CUDA(cudaEventCreate(&ready));
  CUDA(cudaEventCreate(&done));
  cublasHandle_t blas;
  REQUIRE(cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasSetStream(blas, compute) == CUBLAS_STATUS_SUCCESS);
  // Row-major [2,3] x [3,2], as column-major with operands swapped.
  Array<float> a({1, 2, 3, 4, 5, 6}), b({1, 0, 0, 1, 1, 1}), c(4), sum(4);
  const float one = 1, zero = 0;
  for (int step = 0; step < 20; ++step) {
    REQUIRE(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, &one, b.data(), 2, a.data(), 3,
                        &zero, c.data(), 2) == CUBLAS_STATUS_SUCCESS);
    CUDA(scale(compute, 4, c.data(), 2.0f));  // 2 * {4,5,10,11} + {0,1,2,3}
    CUDA(cudaEventRecord(ready, compute));
    CUDA(cudaStreamWaitEvent(me.stream, ready, 0));
    NCCL(ncclAllReduce(c.data(), sum.data(), 4, ncclFloat32, ncclSum, me.world, me.stream));
    CUDA(cudaEventRecord(done, me.stream));
    CUDA(cudaStreamWaitEvent(compute, done, 0));
  }
  const float n = static_cast<float>(me.size);
  REQUIRE((sum.read(me.stream) == std::vector<float>{8 * n, 11 * n, 22 * n, 25 * n}));
  float elapsed = -1;
  CUDA(cudaEventElapsedTime(&elapsed, ready, done));
  REQUIRE(elapsed >= 0);
  REQUIRE(cublasDestroy(blas) == CUBLAS_STATUS_SUCCESS);
  CUDA(cudaStreamSynchronize(compute));
  for (const cudaEvent_t event : {ready, done}) CUDA(cudaEventDestroy(event));
  CUDA(cudaStreamDestroy(compute));
}

// 16-bit products, transposed and batched: c[i,j] = sum_k a[k,i] b[k,j], exact in bf16. And f64.
void products(Rank& me) {
  cublasHandle_t blas;
  REQUIRE(cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasSetStream(blas, me.stream) == CUBLAS_STATUS_SUCCESS);
  const uint16_t ones[] = {0x3F80, 0x3C00};  // 1.0 in bf16, in f16
  const uint16_t threes[] = {0x4040, 0x4200};
  const cudaDataType types[] = {CUDA_R_16BF, CUDA_R_16F};
  const float one = 1, zero = 0;
  for (int t = 0; t < 2; ++t) {
    Array<uint16_t> a(std::vector<uint16_t>(2 * 6, ones[t])),
        b(std::vector<uint16_t>(2 * 6, ones[t]));
    Array<uint16_t> c(2 * 4);
    REQUIRE(cublasGemmStridedBatchedEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, 2, 2, 3, &one, a.data(),
                                       types[t], 3, 6, b.data(), types[t], 3, 6, &zero, c.data(),
                                       types[t], 2, 4, 2, CUBLAS_COMPUTE_32F,
                                       CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(c.read(me.stream) == std::vector<uint16_t>(8, threes[t]));
    Array<float> wide(4);
    REQUIRE(cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, 2, 2, 3, &one, a.data(), types[t], 3,
                         b.data(), types[t], 3, &zero, wide.data(), CUDA_R_32F, 2,
                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(wide.read(me.stream) == std::vector<float>(4, 3));
    // An output one element too short is refused, not written.
    REQUIRE(cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, 2, 3, 3, &one, a.data(), types[t], 3,
                         b.data(), types[t], 3, &zero, wide.data(), CUDA_R_32F, 2,
                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_INVALID_VALUE);
  }
  // float64: c = 2 a b + c, in which a float would lose the last digits.
  Array<double> a({1e9 + 0.25, 1}), b({1, 1e9}), c(std::vector<double>{0.5});
  const double two = 2, keep = 1;
  REQUIRE(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 2, &two, a.data(), CUDA_R_64F, 1,
                       b.data(), CUDA_R_64F, 2, &keep, c.data(), CUDA_R_64F, 1, CUBLAS_COMPUTE_64F,
                       CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(c.read(me.stream)[0] == 4e9 + 1);
  REQUIRE(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 2, &two, a.data(), CUDA_R_64F, 1,
                       b.data(), CUDA_R_64F, 2, &keep, c.data(), CUDA_R_64F, 1, CUBLAS_COMPUTE_32F,
                       CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_NOT_SUPPORTED);
  REQUIRE(cublasDestroy(blas) == CUBLAS_STATUS_SUCCESS);
}

// Without an event the collective may not see what another stream still writes.
void missing_wait(Rank& me) {
  cudaStream_t other;
  CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  Array<float> x(1 << 10), y(1 << 10);
  std::atomic<bool> read = false;
  const auto dawdle = [](void* until) { static_cast<std::atomic<bool>*>(until)->wait(false); };
  CUDA(cudaLaunchHostFunc(other, dawdle, &read));
  CUDA(cudaMemsetAsync(x.data(), 0, x.size() * 4, other));
  NCCL(ncclAllReduce(x.data(), y.data(), 1 << 10, ncclFloat32, ncclMax, me.world, me.stream));
  const bool seen = !std::isnan(y.read(me.stream)[0]);
  read = true;
  read.notify_one();
  CUDA(cudaStreamSynchronize(other));
  if (me.rank == 0) std::printf("%s\n", seen ? "the write was waited for" : "stale data seen");
  CUDA(cudaStreamDestroy(other));
}

void memory(Rank&) {
  float* x = nullptr;
  float host[4] = {0, 0, 0, 0};
  CUDA(cudaMalloc(&x, sizeof host));
  CUDA(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
  REQUIRE(std::isnan(host[0]) && std::isnan(host[3]));  // fresh memory holds no zeros
  CUDA(scale(nullptr, 1, x, 0.0f));
  REQUIRE(cudaMemcpy(x, host, 5 * sizeof(float), cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  REQUIRE(cudaMemcpy(host, host, 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  REQUIRE(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess);
  REQUIRE(plain_kernel(nullptr, x) == cudaErrorInvalidDeviceFunction);
  REQUIRE(cudaGetLastError() == cudaSuccess);
  CUDA(cudaFree(x));
  REQUIRE(cudaFree(x) == cudaErrorInvalidValue);  // twice
  REQUIRE(cudaSetDevice(99) == cudaErrorInvalidDevice);
}

// One element past the end of an allocation: found when it is freed, and the device is broken.
void overrun(Rank&) {
  float* x = nullptr;
  CUDA(cudaMalloc(&x, 4 * sizeof(float)));
  CUDA(scale(nullptr, 5, x, 1.0f));
  REQUIRE(cudaFree(x) == cudaErrorIllegalAddress);
  REQUIRE(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  std::_Exit(0);
}

// Calls that are refused at once, with words.
void refused(Rank& me) {
  Array<float> x(8);
  float host[8];
  const auto last = [] { return std::string(ncclGetLastError(nullptr)); };
  REQUIRE(ncclAllReduce(host, x.data(), 8, ncclFloat32, ncclSum, me.world, me.stream) ==
          ncclInvalidArgument);
  REQUIRE(last().find("sendbuff is not a valid device pointer") != std::string::npos);
  REQUIRE(ncclAllGather(x.data(), x.data(), 8, ncclFloat32, me.world, me.stream) ==
          ncclInvalidArgument);
  REQUIRE(last().find("bytes after its allocation") != std::string::npos);
  REQUIRE(ncclAllReduce(x.data(), x.data() + 1, 4, ncclFloat32, ncclSum, me.world, me.stream) ==
          ncclInvalidArgument);
  REQUIRE(last().find("overlap") != std::string::npos);
  REQUIRE(ncclSend(x.data(), 1, ncclFloat32, me.size, me.world, me.stream) == ncclInvalidArgument);
  REQUIRE(ncclGroupEnd() == ncclInvalidUsage);
  NCCL(ncclGroupStart());
  REQUIRE(ncclRecv(host, 1, ncclFloat32, 0, me.world, me.stream) == ncclInvalidArgument);
  NCCL(ncclAllReduce(x.data(), x.data(), 8, ncclFloat32, ncclSum, me.world, me.stream));
  REQUIRE(ncclGroupEnd() == ncclInvalidArgument);  // and the good call was not launched either
  const auto after = x.read(me.stream);
  REQUIRE(std::isnan(after[0]));
}

// Waits until the communicator reports an asynchronous error, and prints it.
void print_async_error(Rank& me, ncclComm_t comm) {
  for (int i = 0; i < 5000; ++i) {
    ncclResult_t error = ncclSuccess;
    NCCL(ncclCommGetAsyncError(comm, &error));
    if (error == ncclSuccess) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    std::printf("rank %d: %d %s\n", me.rank, error, ncclGetLastError(comm));
    return;
  }
  std::printf("rank %d: no error\n", me.rank);
  std::exit(1);
}

// Rank 1 disagrees in one respect about the second of three collectives.
void disagree(Rank& me, size_t count, ncclDataType_t dtype, ncclRedOp_t op, bool gather) {
  Array<float> x(std::vector<float>(64, 1)), y(256);
  NCCL(ncclAllReduce(x.data(), x.data(), 64, ncclFloat32, ncclSum, me.world, me.stream));
  const bool odd = me.rank == 1;
  if (odd && gather) {
    NCCL(ncclAllGather(x.data(), y.data(), 16, ncclFloat32, me.world, me.stream));
  } else {
    NCCL(ncclAllReduce(x.data(), y.data(), odd ? count : 16, odd ? dtype : ncclFloat32,
                       odd ? op : ncclSum, me.world, me.stream));
  }
  print_async_error(me, me.world);
  REQUIRE(ncclAllReduce(x.data(), x.data(), 1, ncclFloat32, ncclSum, me.world, me.stream) ==
          ncclInvalidUsage);  // the communicator stays broken
  CUDA(cudaStreamSynchronize(me.stream));
  REQUIRE(std::isnan(y.read(me.stream)[0]));  // and its results are no data
}
void wrong_count(Rank& me) {
  disagree(me, 17, ncclFloat32, ncclSum, false);
}
void zero_count(Rank& me) {
  disagree(me, 0, ncclFloat32, ncclSum, false);
}
void wrong_dtype(Rank& me) {
  disagree(me, 16, ncclInt32, ncclSum, false);
}
void wrong_reduction(Rank& me) {
  disagree(me, 16, ncclFloat32, ncclMax, false);
}
void wrong_op(Rank& me) {
  disagree(me, 16, ncclFloat32, ncclSum, true);
}

void wrong_root(Rank& me) {
  Array<float> x(4);
  NCCL(ncclBroadcast(x.data(), x.data(), 4, ncclFloat32, me.rank == 1, me.world, me.stream));
  print_async_error(me, me.world);
}
void wrong_message(Rank& me) {
  Array<float> x(8);
  if (me.rank == 0) NCCL(ncclSend(x.data(), 8, ncclFloat32, 1, me.world, me.stream));
  if (me.rank == 1) NCCL(ncclRecv(x.data(), 7, ncclFloat32, 0, me.world, me.stream));
  if (me.rank > 1)
    NCCL(ncclAllReduce(x.data(), x.data(), 8, ncclFloat32, ncclSum, me.world, me.stream));
  print_async_error(me, me.world);
}
void message_against_collective(Rank& me) {
  Array<float> x(8);
  if (me.rank == 0) {
    NCCL(ncclRecv(x.data(), 8, ncclFloat32, 1, me.world, me.stream));
  } else {
    NCCL(ncclAllReduce(x.data(), x.data(), 8, ncclFloat32, ncclSum, me.world, me.stream));
  }
  print_async_error(me, me.world);
}
void wrong_name(Rank& me) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = me.rank == 1 ? "dp0" : "tp0";
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommSplit(me.world, 0, 0, &comm, &config) == ncclInvalidUsage);
  std::printf("rank %d: %s\n", me.rank, ncclGetLastError(nullptr));
}

// A rank that dies, stalls or fails in its second kernel (S2T_STANDIN_FAULT says which).
void trouble(Rank& me) {
  Array<float> x(std::vector<float>(64, 1));
  NCCL(ncclAllReduce(x.data(), x.data(), 64, ncclFloat32, ncclSum, me.world, me.stream));
  NCCL(ncclAllReduce(x.data(), x.data(), 64, ncclFloat32, ncclSum, me.world, me.stream));
  print_async_error(me, me.world);
}
// Nobody leaves before all are here: who leaves ends the others' wait. No kernel of `all` runs.
void meet(Rank& me, ncclComm_t all) {
  NCCL(ncclCommDestroy(split(all, 0, me.rank, "met")));
}
void stalled(Rank& me) {
  const ncclComm_t all = split(me.world, 0, me.rank, "all");
  Array<float> x(std::vector<float>(64, 1));
  NCCL(ncclAllReduce(x.data(), x.data(), 64, ncclFloat32, ncclSum, me.world, me.stream));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  REQUIRE(cudaStreamQuery(me.stream) == cudaErrorNotReady);
  ncclResult_t error = ncclInternalError;
  NCCL(ncclCommGetAsyncError(me.world, &error));
  REQUIRE(error == ncclSuccess);  // a stall is no error: only a time-out of the caller finds it
  meet(me, all);
  NCCL(ncclCommAbort(me.world));
  CUDA(cudaStreamSynchronize(me.stream));
  std::exit(0);
}
// The others wait for a rank that stalls, longer than the stand-in lets them.
void impatient(Rank& me) {
  const ncclComm_t all = split(me.world, 0, me.rank, "all");
  const std::string usual = std::getenv("S2T_STANDIN_TIMEOUT_MS");
  if (me.rank != 1) setenv("S2T_STANDIN_TIMEOUT_MS", "300", 1);
  Array<float> x(std::vector<float>(64, 1));
  NCCL(ncclAllReduce(x.data(), x.data(), 64, ncclFloat32, ncclSum, me.world, me.stream));
  if (me.rank != 1) print_async_error(me, me.world);
  setenv("S2T_STANDIN_TIMEOUT_MS", usual.c_str(), 1);
  meet(me, all);
  NCCL(ncclCommAbort(me.world));
  std::exit(0);
}
void refusal(Rank& me) {
  Array<float> x(4);
  NCCL(ncclAllReduce(x.data(), x.data(), 0, ncclFloat32, ncclSum, me.world, me.stream));
  const ncclResult_t code =
      ncclAllReduce(x.data(), x.data(), 0, ncclFloat32, ncclSum, me.world, me.stream);
  REQUIRE((code == ncclSystemError) == (me.rank == 1));
}
void out_of_memory(Rank&) {
  void* first = nullptr;
  void* second = nullptr;
  CUDA(cudaMalloc(&first, 600));
  REQUIRE(cudaMalloc(&second, 600) == cudaErrorMemoryAllocation);
  REQUIRE(cudaGetLastError() == cudaErrorMemoryAllocation);
  CUDA(cudaFree(first));
  CUDA(cudaMalloc(&second, 600));
  CUDA(cudaFree(second));
}
void version(Rank& me) {
  int version = 0;
  NCCL(ncclGetVersion(&version));
  if (me.rank == 0) std::printf("version %d\n", version);
}
void no_cublas(Rank&) {
  cublasHandle_t blas;
  REQUIRE(cublasCreate(&blas) == CUBLAS_STATUS_NOT_INITIALIZED);
}

// A fixed sequence for the witnesses (see standins_test.cc, which lists what they must see).
void trace(Rank& me) {
  const ncclComm_t tp = pairs(me);
  const ncclComm_t self = split(me.world, me.rank, 0, "self");
  Array<float> x(std::vector<float>(64, 1)), y(256);
  Array<uint16_t> h(64);
  NCCL(ncclAllReduce(x.data(), y.data(), 64, ncclFloat32, ncclSum, me.world, me.stream));
  NCCL(ncclAllGather(h.data(), y.data(), 8, ncclBfloat16, tp, me.stream));
  NCCL(ncclReduceScatter(x.data(), y.data(), 4, ncclFloat32, ncclAvg, tp, me.stream));
  NCCL(ncclBroadcast(x.data(), y.data(), 3, ncclFloat64, 2, me.world, me.stream));
  NCCL(ncclReduce(x.data(), y.data(), 5, ncclFloat32, ncclMax, 1, me.world, me.stream));
  NCCL(ncclAlltoAll(x.data(), y.data(), 4, ncclFloat32, me.world, me.stream));
  NCCL(ncclGroupStart());
  NCCL(ncclAllReduce(x.data(), y.data(), 2, ncclFloat32, ncclSum, tp, me.stream));
  NCCL(ncclAllReduce(x.data(), y.data(), 6, ncclFloat32, ncclSum, tp, me.stream));
  NCCL(ncclAllReduce(x.data(), y.data(), 7, ncclFloat32, ncclSum, me.world, me.stream));
  NCCL(ncclGroupEnd());
  NCCL(ncclAllReduce(x.data(), y.data(), 0, ncclFloat32, ncclSum, me.world, me.stream));
  NCCL(ncclAllReduce(x.data(), y.data(), 9, ncclFloat32, ncclSum, self, me.stream));
  if (me.rank == 0) NCCL(ncclSend(x.data(), 10, ncclFloat32, 3, me.world, me.stream));
  if (me.rank == 3) NCCL(ncclRecv(y.data(), 10, ncclFloat32, 0, me.world, me.stream));
  CUDA(cudaStreamSynchronize(me.stream));
  for (const ncclComm_t comm : {tp, self}) NCCL(ncclCommDestroy(comm));
}

}  // namespace

const Scenario kScenarios[] = {
    {"values", values},
    {"groups", groups},
    {"streams", streams},
    {"products", products},
    {"missing_wait", missing_wait},
    {"memory", memory},
    {"overrun", overrun},
    {"refused", refused},
    {"wrong_count", wrong_count},
    {"zero_count", zero_count},
    {"wrong_dtype", wrong_dtype},
    {"wrong_reduction", wrong_reduction},
    {"wrong_op", wrong_op},
    {"wrong_root", wrong_root},
    {"wrong_message", wrong_message},
    {"message_against_collective", message_against_collective},
    {"wrong_name", wrong_name},
    {"trouble", trouble},
    {"stalled", stalled},
    {"impatient", impatient},
    {"refusal", refusal},
    {"out_of_memory", out_of_memory},
    {"version", version},
    {"no_cublas", no_cublas},
    {"trace", trace},
};
const int kScenarioCount = sizeof kScenarios / sizeof kScenarios[0];

}  // namespace s2t::selftest
