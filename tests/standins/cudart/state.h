// The fake device: errors, devices, memory and streams of one process.
//
// Streams are worker threads with a FIFO, so a missing wait shows as a wrong result. Memory is
// ordinary host memory, poisoned with 0xFF (a NaN in every float type) when it is allocated and
// when it is freed, and fenced so that a write past the end is found. All state is leaked on
// purpose: worker threads may outlive static destructors.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace s2t::standin {

// --- errors -----------------------------------------------------------------------------------
cudaError_t fail(cudaError_t error);  // remembers it for cudaGetLastError; success passes through
cudaError_t usable();                 // what any call that needs a device answers first
void break_device(cudaError_t error, const char* why);  // a sticky error; says why on stderr

// --- devices ----------------------------------------------------------------------------------
int visible_devices();

// --- streams ----------------------------------------------------------------------------------
class Stream {
 public:
  explicit Stream(bool blocking) : blocking_(blocking) {}
  ~Stream();

  uint64_t push(std::function<void()> work);  // returns the ticket of this piece of work
  uint64_t last_ticket();
  bool done(uint64_t ticket);
  void wait(uint64_t ticket);
  bool blocking() const { return blocking_; }  // ordered with the default stream

 private:
  struct Queue;  // shared with the worker thread, which may outlive this object
  Queue& queue();
  std::shared_ptr<Queue> queue_;
  std::once_flag started_;
  bool blocking_;
};

std::shared_ptr<Stream> find_stream(cudaStream_t handle);  // null for an unknown handle
// Enqueues on the stream, ordered with the legacy default stream as CUDA demands.
cudaError_t enqueue(cudaStream_t handle, std::function<void()> work);
cudaError_t enqueue_and_wait(cudaStream_t handle, std::function<void()> work);
void drain_all();

// --- memory -----------------------------------------------------------------------------------
enum class Kind { unknown, device, pinned };
struct Place {
  Kind kind = Kind::unknown;
  size_t room = 0;  // bytes up to the end of the allocation
};
Place locate(const void* pointer);
// No overrun and, for the directions that name a side, memory of that side.
cudaError_t check_copy(const void* dst, const void* src, size_t bytes, cudaMemcpyKind kind);

}  // namespace s2t::standin
