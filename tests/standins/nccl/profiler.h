// Loads the profiler plugin named by NCCL_PROFILER_PLUGIN and tells it what NCCL 2.28 would.
//
// Only table v5 and the events Coll, P2p, KernelLaunch and KernelCh. The layouts are written out
// here a second time, apart from the plugin under runtime/witness, so that one checks the other.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <string>

namespace s2t::standin {

struct Task;

class ProfilerContext {
 public:
  ~ProfilerContext() { finish(); }
  void init(uint64_t id, const std::string& name, int ranks, int rank);
  void finish();

  void start(Task& task, int rank);  // Coll or P2p; the handle is kept in the task
  void stop(Task& task);
  void launch(cudaStream_t stream);   // KernelLaunch, start and stop
  void kernel_channel(void* parent);  // KernelCh, start and stop; from the stream's thread

 private:
  bool loaded_ = false;
  void* context_ = nullptr;
};

}  // namespace s2t::standin
