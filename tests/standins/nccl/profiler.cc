#include "tests/standins/nccl/profiler.h"

#include <dlfcn.h>
#include <strings.h>

#include <cstdlib>
#include <mutex>

#include "tests/standins/nccl/comm.h"

namespace s2t::standin {
namespace {

constexpr uint64_t kColl = 2, kP2p = 4, kKernelCh = 64, kKernelLaunch = 2048;

struct Event {  // descriptor of table v5
  uint64_t type;
  void* parent;
  int rank;
  union {
    struct {
      uint64_t sequence;
      const char* function;
      const void* send;
      void* recv;
      size_t count;
      int root;
      const char* dtype;
      uint8_t channels, warps;
      const char* algorithm;
      const char* protocol;
      void* group;
    } coll;
    struct {
      const char* function;
      void* buffer;
      const char* dtype;
      size_t count;
      int peer;
      uint8_t channels;
      void* group;
    } p2p;
    struct {
      void* stream;
    } launch;
    struct {
      uint8_t channel;
      uint64_t timer;
    } kernel;
  };
};

using Logger = void (*)(int, unsigned long, const char*, int, const char*, ...);
struct Table {
  const char* name;
  ncclResult_t (*init)(void**, uint64_t, int*, const char*, int, int, int, Logger);
  ncclResult_t (*start)(void*, void**, Event*);
  ncclResult_t (*stop)(void*);
  ncclResult_t (*record)(void*, int, void*);
  ncclResult_t (*finalize)(void*);
};

void no_log(int, unsigned long, const char*, int, const char*, ...) {}

// The library is closed with the last communicator, as in NCCL.
struct Plugin {
  std::mutex mutex;
  int users = 0;
  void* library = nullptr;
  const Table* table = nullptr;
  int mask = 0;

  void acquire() {
    std::lock_guard lock(mutex);
    if (users++ > 0) return;
    const char* wanted = std::getenv("NCCL_PROFILER_PLUGIN");
    if (wanted && strcasecmp(wanted, "none") == 0) return;
    const std::string name = wanted ? wanted : "libnccl-profiler.so";
    library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) library = dlopen(("libnccl-profiler-" + name + ".so").c_str(), RTLD_NOW);
    if (library) table = static_cast<const Table*>(dlsym(library, "ncclProfiler_v5"));
  }
  void release() {
    std::lock_guard lock(mutex);
    if (--users > 0) return;
    if (library) dlclose(library);
    library = nullptr;
    table = nullptr;
  }
};
Plugin& plugin() {
  static auto* instance = new Plugin;
  return *instance;
}

// AllGather and Broadcast are reported in bytes, whatever the type.
bool in_bytes(Op op) {
  return op == Op::all_gather || op == Op::broadcast;
}

void describe(Event& event, const Task& task) {
  if (is_p2p(task.op)) {
    void* buffer = task.op == Op::send ? const_cast<char*>(task.send) : task.recv;
    event.type = kP2p;
    event.p2p = {name_of(task.op), buffer, name_of(task.dtype), task.count, task.peer, 1, nullptr};
    return;
  }
  const bool bytes = in_bytes(task.op);
  event.type = kColl;
  event.coll = {0,
                name_of(task.op),
                task.send,
                task.recv,
                bytes ? task.bytes() : task.count,
                task.peer,
                bytes ? "ncclInt8" : name_of(task.dtype),
                1,
                1,
                "RING",
                "SIMPLE",
                nullptr};
}

}  // namespace

void ProfilerContext::init(uint64_t id, const std::string& name, int ranks, int rank) {
  plugin().acquire();
  loaded_ = true;
  if (!plugin().table) return;
  plugin().table->init(&context_, id, &plugin().mask, name.empty() ? nullptr : name.c_str(), 1,
                       ranks, rank, no_log);
}

void ProfilerContext::finish() {
  if (!loaded_) return;
  loaded_ = false;
  if (plugin().table && context_) plugin().table->finalize(context_);
  plugin().release();
}

void ProfilerContext::start(Task& task, int rank) {
  Event event = {};
  describe(event, task);
  event.rank = rank;
  if (plugin().table && (static_cast<uint64_t>(plugin().mask) & event.type)) {
    plugin().table->start(context_, &task.event, &event);
  }
}

void ProfilerContext::stop(Task& task) {
  if (plugin().table && task.event) plugin().table->stop(task.event);
}

void ProfilerContext::launch(cudaStream_t stream) {
  if (!plugin().table || !(plugin().mask & kKernelLaunch)) return;
  Event event = {};
  event.type = kKernelLaunch;  // the rank stays 0, as in NCCL 2.28
  event.launch.stream = stream;
  void* handle = nullptr;
  plugin().table->start(context_, &handle, &event);
  if (handle) plugin().table->stop(handle);
}

void ProfilerContext::kernel_channel(void* parent) {
  if (!plugin().table || !(plugin().mask & kKernelCh)) return;
  Event event = {};
  event.type = kKernelCh;
  event.parent = parent;
  event.kernel = {0, 1};
  void* handle = nullptr;
  plugin().table->start(context_, &handle, &event);
  if (handle) plugin().table->stop(handle);
}

}  // namespace s2t::standin
