// Allocation, copies and fills.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string>

#include "tests/standins/cudart/state.h"
#include "tests/standins/fault.h"
#include "tests/standins/hooks.h"

namespace s2t::standin {
namespace {

constexpr unsigned char kPoison = 0xFF;  // NaN in float, double, half and bf16; -1 in integers
constexpr unsigned char kFenceByte = 0xA5;
constexpr size_t kFence = 64;                     // bytes after each block that nobody may write
constexpr size_t kQuarantine = size_t{64} << 20;  // freed bytes that stay poisoned and watched

struct Block {
  char* start;
  size_t bytes;
  Kind kind;
};

class Memory {
 public:
  void* allocate(size_t bytes, Kind kind) {
    std::lock_guard lock(mutex_);
    if (kind == Kind::device && over_limit(bytes)) return nullptr;
    char* start = static_cast<char*>(std::aligned_alloc(256, (bytes + kFence + 255) / 256 * 256));
    if (!start) return nullptr;
    std::memset(start, kPoison, bytes);
    std::memset(start + bytes, kFenceByte, kFence);
    blocks_[start] = {start, bytes, kind};
    if (kind == Kind::device) in_use_ += bytes;
    return start;
  }

  cudaError_t release(void* pointer, Kind kind) {
    std::lock_guard lock(mutex_);
    const auto found = blocks_.find(static_cast<char*>(pointer));
    if (found == blocks_.end() || found->second.kind != kind) return cudaErrorInvalidValue;
    const Block block = found->second;
    blocks_.erase(found);
    if (kind == Kind::device) in_use_ -= block.bytes;
    const bool whole = all(block.start + block.bytes, kFence, kFenceByte);
    std::memset(block.start, kPoison, block.bytes);
    quarantine(block);
    if (!whole) break_device(cudaErrorIllegalAddress, "a write past the end of an allocation");
    return whole ? cudaSuccess : cudaErrorIllegalAddress;
  }

  Place locate(const void* pointer) {
    const char* p = static_cast<const char*>(pointer);
    std::lock_guard lock(mutex_);
    auto after = blocks_.upper_bound(const_cast<char*>(p));
    if (after == blocks_.begin()) return {};
    const Block& block = std::prev(after)->second;
    const size_t offset = static_cast<size_t>(p - block.start);
    if (offset > block.bytes || (offset == block.bytes && block.bytes > 0)) return {};
    return {block.kind, block.bytes - offset};
  }

  size_t in_use() {
    std::lock_guard lock(mutex_);
    return in_use_;
  }

 private:
  static bool all(const char* start, size_t bytes, unsigned char byte) {
    for (size_t i = 0; i < bytes; ++i) {
      if (static_cast<unsigned char>(start[i]) != byte) return false;
    }
    return true;
  }

  bool over_limit(size_t bytes) const {
    const auto limit = fault("oom");
    return limit && in_use_ + bytes > std::strtoull(limit->c_str(), nullptr, 10);
  }

  void quarantine(const Block& block) {
    freed_.push_back(block);
    freed_bytes_ += block.bytes;
    while (freed_bytes_ > kQuarantine) {
      const Block& oldest = freed_.front();
      if (!all(oldest.start, oldest.bytes, kPoison)) {
        break_device(cudaErrorIllegalAddress, "a write into memory that was freed");
      }
      freed_bytes_ -= oldest.bytes;
      std::free(oldest.start);
      freed_.pop_front();
    }
  }

  std::mutex mutex_;
  std::map<char*, Block> blocks_;
  std::deque<Block> freed_;
  size_t freed_bytes_ = 0;
  size_t in_use_ = 0;
};

Memory& memory() {
  static auto* instance = new Memory;
  return *instance;
}

cudaError_t allocate(void** pointer, size_t bytes, Kind kind) {
  if (const cudaError_t error = usable()) return error;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;  // as CUDA: success, and a null pointer
  *pointer = memory().allocate(bytes, kind);
  return *pointer ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}

cudaError_t release(void* pointer, Kind kind) {
  if (const cudaError_t error = usable()) return error;
  if (!pointer) return cudaSuccess;
  drain_all();  // as CUDA: freeing waits for the device
  return fail(memory().release(pointer, kind));
}

cudaError_t check_side(const void* pointer, size_t bytes, bool must_be_device) {
  const Place place = locate(pointer);
  if (must_be_device && place.kind != Kind::device) return cudaErrorInvalidValue;
  if (place.kind != Kind::unknown && bytes > place.room) return cudaErrorInvalidValue;
  return cudaSuccess;
}

}  // namespace

Place locate(const void* pointer) {
  return memory().locate(pointer);
}

cudaError_t check_copy(const void* dst, const void* src, size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  if (const cudaError_t error = check_side(src, bytes, from_device)) return fail(error);
  return fail(check_side(dst, bytes, to_device));
}

}  // namespace s2t::standin

using namespace s2t::standin;

extern "C" {

size_t s2t_stand_in_room(const void* pointer) {
  const Place place = locate(pointer);
  return place.kind == Kind::device ? place.room : 0;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return allocate(pointer, bytes, Kind::device);
}
cudaError_t cudaFree(void* pointer) {
  return release(pointer, Kind::device);
}
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) {
  return allocate(pointer, bytes, Kind::device);
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return enqueue(stream, [pointer] { memory().release(pointer, Kind::device); });
}
cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return allocate(pointer, bytes, Kind::pinned);
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  return allocate(pointer, bytes, Kind::pinned);
}
cudaError_t cudaFreeHost(void* pointer) {
  return release(pointer, Kind::pinned);
}

cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  if (const cudaError_t error = usable()) return error;
  const auto limit = fault("oom");
  *total = limit ? std::strtoull(limit->c_str(), nullptr, 10) : size_t{1} << 30;
  *available = *total - std::min(*total, memory().in_use());
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (const cudaError_t error = usable()) return error;
  const Kind kind = locate(pointer).kind;
  *attributes = {};
  attributes->type = kind == Kind::device   ? cudaMemoryTypeDevice
                     : kind == Kind::pinned ? cudaMemoryTypeHost
                                            : cudaMemoryTypeUnregistered;
  if (kind == Kind::device) attributes->devicePointer = const_cast<void*>(pointer);
  if (kind != Kind::device) attributes->hostPointer = const_cast<void*>(pointer);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = check_copy(dst, src, bytes, kind)) return error;
  const cudaError_t error = enqueue_and_wait(nullptr, [=] { std::memcpy(dst, src, bytes); });
  return error ? error : usable();
}

// Pageable host memory behaves as in CUDA: a source is read before the call returns, a destination
// is written before it returns. Only pinned memory is touched in stream order.
cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (const cudaError_t error = check_copy(dst, src, bytes, kind)) return error;
  if (locate(dst).kind == Kind::unknown) {
    return enqueue_and_wait(stream, [=] { std::memcpy(dst, src, bytes); });
  }
  if (locate(src).kind == Kind::unknown) {
    const char* start = static_cast<const char*>(src);
    std::string staged(start, start + bytes);
    return enqueue(stream, [dst, staged = std::move(staged)] {
      std::memcpy(dst, staged.data(), staged.size());
    });
  }
  return enqueue(stream, [=] { std::memcpy(dst, src, bytes); });
}

cudaError_t cudaMemsetAsync(void* dst, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return usable();
  if (const cudaError_t error = check_side(dst, bytes, true)) return fail(error);
  return enqueue(stream, [=] { std::memset(dst, value, bytes); });
}
cudaError_t cudaMemset(void* dst, int value, size_t bytes) {
  return cudaMemsetAsync(dst, value, bytes, nullptr);
}

}  // extern "C"
