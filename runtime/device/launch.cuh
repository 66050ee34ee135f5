// Elementwise and row-wise CUDA kernels from one `__host__ __device__` body.
//
//   __host__ __device__ inline void scale(int64_t i, float* x, float by) { x[i] *= by; }
//   check(launch<scale>(stream, count, x, 2.0f));      // scale(i, x, 2) for every i in [0, count)
//
// Known here: how a body becomes a kernel, and how a stand-in for the CUDA runtime can run the same
// body on the CPU: argument sizes are not part of CUDA's launch interface, so only code that knows
// the types can copy them. With the real library all that remains of this is a null check. Not
// known here: any op. Kernels that need shared memory or shuffles do not fit.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

// Defined by the stand-in only (tests/standins/hooks.h); null with the real CUDA runtime.
extern "C" __attribute__((weak, visibility("default"))) void s2t_stand_in_twin(
    const void* stub, void* (*capture)(void** arguments),
    void (*run)(void* captured, long threads));

namespace s2t {

template <auto Body, class... A>
__global__ void map_kernel(int64_t count, A... arguments) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < count) Body(i, arguments...);
}

namespace detail {

// The CPU side of one kernel: what it was launched with, and how to run it.
template <auto Body, class... A>
struct Twin {
  int64_t count;
  std::tuple<A...> arguments;

  template <size_t... I>
  static Twin* copy(void** from, std::index_sequence<I...>) {
    return new Twin{*static_cast<int64_t*>(from[0]),
                    std::tuple<A...>(*static_cast<A*>(from[I + 1])...)};
  }
  static void* capture(void** from) { return copy(from, std::index_sequence_for<A...>()); }
  static void run(void* captured, long threads) {
    Twin* twin = static_cast<Twin*>(captured);
    const int64_t end = std::min<int64_t>(twin->count, threads);
    std::apply(
        [end](A... a) {
          for (int64_t i = 0; i < end; ++i) Body(i, a...);
        },
        twin->arguments);
    delete twin;
  }
};

}  // namespace detail

template <auto Body, class... A>
cudaError_t launch(cudaStream_t stream, int64_t count, A... arguments) {
  if (count <= 0) return cudaSuccess;
  using Twin = detail::Twin<Body, A...>;
  if (s2t_stand_in_twin) {
    s2t_stand_in_twin(reinterpret_cast<const void*>(&map_kernel<Body, A...>), Twin::capture,
                      Twin::run);
  }
  constexpr int kBlock = 256;
  const auto blocks = static_cast<unsigned>((count + kBlock - 1) / kBlock);
  map_kernel<Body, A...><<<blocks, kBlock, 0, stream>>>(count, arguments...);
  return cudaGetLastError();
}

}  // namespace s2t
