// Errors and device queries.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/standins/cudart/state.h"
#include "tests/standins/fault.h"
#include "tests/standins/hooks.h"

namespace s2t::standin {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;
std::atomic<cudaError_t> sticky{cudaSuccess};

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
};

const ErrorText* find(cudaError_t error) {
  for (const ErrorText& row : kErrors) {
    if (row.error == error) return &row;
  }
  return nullptr;
}

// The physical device behind each visible one, as CUDA_VISIBLE_DEVICES orders them.
std::vector<int> devices() {
  const char* count = std::getenv("S2T_STANDIN_DEVICES");
  const int all = count ? std::atoi(count) : 8;
  std::vector<int> result;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::string_view rest = visible;
    while (!rest.empty()) {
      const std::string item(rest.substr(0, rest.find(',')));
      rest.remove_prefix(item.size() < rest.size() ? item.size() + 1 : rest.size());
      const int index = std::atoi(item.c_str());
      if (index < 0 || index >= all) break;  // CUDA ignores what follows an invalid entry
      result.push_back(index);
    }
    return result;
  }
  for (int i = 0; i < all; ++i) result.push_back(i);
  return result;
}

}  // namespace

cudaError_t fail(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t usable() {
  if (fault("no_driver")) return fail(cudaErrorInsufficientDriver);
  if (visible_devices() == 0) return fail(cudaErrorNoDevice);
  return fail(sticky.load());
}

void break_device(cudaError_t error, const char* why) {
  std::fprintf(stderr, "stand-in cudart: %s\n", why);
  sticky.store(error);
}

int visible_devices() {
  return fault("no_device") ? 0 : static_cast<int>(devices().size());
}

}  // namespace s2t::standin

using namespace s2t::standin;

extern "C" {

const char* s2t_stand_in() {
  return "cudart";
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = sticky.load();
  return error;
}
cudaError_t cudaPeekAtLastError() {
  return last_error;
}
const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* row = find(error);
  return row ? row->name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* row = find(error);
  return row ? row->text : "unrecognized error code";
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = fault("no_driver") ? 0 : CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (const cudaError_t error = usable()) return error;  // *count stays as it is, as in CUDA
  *count = visible_devices();
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  if (const cudaError_t error = usable()) return error;
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = usable()) return error;
  if (device < 0 || device >= visible_devices()) return fail(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  if (const cudaError_t error = usable()) return error;
  if (device < 0 || device >= visible_devices()) return fail(cudaErrorInvalidDevice);
  std::snprintf(id, static_cast<size_t>(length), "0000:%02X:00.0", devices()[device]);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (const cudaError_t error = usable()) return error;
  if (device < 0 || device >= visible_devices()) return fail(cudaErrorInvalidDevice);
  std::memset(properties, 0, sizeof *properties);
  std::snprintf(properties->name, sizeof properties->name, "stand-in (no GPU)");
  properties->major = 9;
  properties->totalGlobalMem = size_t{1} << 30;
  properties->multiProcessorCount = 1;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->pciBusID = devices()[device];
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device)) return error;
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = 1;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = 32;
      return cudaSuccess;
    default:
      return fail(cudaErrorInvalidValue);
  }
}
cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = usable()) return error;
  drain_all();
  return usable();
}
cudaError_t cudaDeviceReset() {
  return cudaDeviceSynchronize();
}

}  // extern "C"
