// One rank's end of a communicator, and the work that a group of calls becomes.
#pragma once

#include <nccl.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/standins/nccl/profiler.h"
#include "tests/standins/nccl/segment.h"

namespace s2t::standin {

enum class Op : uint32_t { all_reduce, all_gather, reduce_scatter, broadcast, reduce, send, recv };
const char* name_of(Op op);  // NCCL's own word: "AllReduce"
inline bool is_p2p(Op op) {
  return op == Op::send || op == Op::recv;
}

size_t size_of(ncclDataType_t dtype);  // 0 for an unknown type
const char* name_of(ncclDataType_t dtype);

// One collective or one half of a message. `count` is the argument of the NCCL call.
struct Task {
  Op op;
  const char* send;
  char* recv;
  size_t count;
  ncclDataType_t dtype;
  ncclRedOp_t redop;
  int peer;  // or root
  cudaStream_t stream;
  void* event;  // of the profiler

  size_t bytes() const { return count * size_of(dtype); }
};
std::string to_string(const Task& task);

// Kernels of one communicator run in the order in which they were launched, on whatever stream.
class Turn {
 public:
  uint64_t take();  // at launch
  void await(uint64_t ticket);
  void pass();
  void drain();  // until every ticket taken has passed

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  uint64_t taken_ = 0, passed_ = 0;
};

}  // namespace s2t::standin

struct ncclComm {
  s2t::standin::Segment segment;
  std::string name;
  int device;
  s2t::standin::ProfilerContext profiler;
  s2t::standin::Turn turn;
  std::atomic<ncclResult_t> error{ncclSuccess};  // asynchronous, stays
  uint64_t collectives = 0;                      // touched by kernels only

  ncclComm(const s2t::standin::Address& address, int ranks, int rank, std::string called, int on)
      : segment(address, ranks, rank), name(std::move(called)), device(on) {}
  std::string label() const { return "communicator \"" + name + "\""; }
};

namespace s2t::standin {

using CommPtr = std::shared_ptr<ncclComm>;
CommPtr find_comm(ncclComm_t handle);  // throws Failure for a handle that is not alive

void set_last_error(const std::string& text);
int world_rank();  // in the first communicator of this process; -1 before there is one

// Runs a body that may throw Failure and gives its result code; the text is kept for
// ncclGetLastError.
template <class Body>
ncclResult_t guarded(Body&& body) {
  try {
    body();
    return ncclSuccess;
  } catch (const Failure& failure) {
    set_last_error(failure.text);
    return failure.code;
  }
}
void check_cuda(cudaError_t error);  // throws Failure in NCCL's words

// What the kernel of one group on one communicator does on its stream.
void run_tasks(ncclComm& comm, const std::vector<Task>& tasks);

// True when the calling thread is inside ncclGroupStart/End; then `job` runs at the end.
bool deferred(std::function<void()> job);

}  // namespace s2t::standin
