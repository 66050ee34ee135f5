// The launch interface that nvcc compiles `<<<...>>>` into, served by CPU twins.
//
// Sizes of kernel arguments are not part of that interface, so only a registered twin can copy
// them. CUDA 13 emits __cudaGetKernel and __cudaLaunchKernel, CUDA 12 cudaLaunchKernel, and a
// build without optimisation also __cudaInitModule.
#include <cstdio>
#include <map>
#include <string>

#include "tests/standins/cudart/state.h"
#include "tests/standins/hooks.h"

namespace s2t::standin {
namespace {

struct Twin {
  void* (*capture)(void**);
  void (*run)(void*, long);
};
struct Kernels {
  std::mutex mutex;
  std::map<const void*, std::string> names;  // by host address
  std::map<const void*, Twin> twins;
};
Kernels& kernels() {
  static auto* instance = new Kernels;
  return *instance;
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  void* stream;
};
thread_local std::vector<Configuration> configurations;

long count(dim3 d) {
  return static_cast<long>(d.x) * d.y * d.z;
}

cudaError_t launch(const void* stub, dim3 grid, dim3 block, void** arguments, cudaStream_t stream) {
  if (const cudaError_t error = usable()) return error;
  if (count(grid) == 0 || count(block) == 0 || count(block) > 1024) {
    return fail(cudaErrorInvalidConfiguration);
  }
  std::unique_lock lock(kernels().mutex);
  const auto twin = kernels().twins.find(stub);
  if (twin == kernels().twins.end()) {
    std::fprintf(stderr, "stand-in cudart: kernel %s has no CPU twin\n",
                 kernels().names[stub].c_str());
    return fail(cudaErrorInvalidDeviceFunction);
  }
  const Twin found = twin->second;
  lock.unlock();
  void* captured = found.capture(arguments);
  const long threads = count(grid) * count(block);
  return enqueue(stream, [found, captured, threads] { found.run(captured, threads); });
}

}  // namespace
}  // namespace s2t::standin

using namespace s2t::standin;

extern "C" {

void s2t_stand_in_twin(const void* stub, void* (*capture)(void**), void (*run)(void*, long)) {
  std::lock_guard lock(kernels().mutex);
  kernels().twins[stub] = {capture, run};
}

void** __cudaRegisterFatBinary(void* binary) {
  return new void*(binary);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) {
  delete handle;
}
char __cudaInitModule(void**) {
  return 1;
}
void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  std::lock_guard lock(kernels().mutex);
  kernels().names[stub] = name;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations.empty()) return fail(cudaErrorInvalidConfiguration);
  const Configuration top = configurations.back();
  configurations.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<void**>(stream) = top.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t,
                               cudaStream_t stream) {
  return launch(kernel, grid, block, arguments, stream);
}
cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments, size_t,
                             cudaStream_t stream) {
  return launch(stub, grid, block, arguments, stream);
}

}  // extern "C"
