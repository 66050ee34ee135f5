// Making, splitting, asking and ending communicators.
#include "tests/standins/nccl/comm.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "tests/standins/fault.h"
#include "tests/standins/hooks.h"

namespace s2t::standin {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<ncclComm_t, CommPtr> comms;
  std::string last_error;
  int world_rank = -1;
};
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

// NCCL identifies a machine by NCCL_HOSTID where that is set.
uint64_t host_id() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  const char* given = std::getenv("NCCL_HOSTID");
  return std::hash<std::string>{}(given ? given : name);
}

void introduce(ncclComm& comm) {
  RankState& me = comm.segment.mine();
  me.host = host_id();
  me.ranks = comm.segment.ranks();
  check_cuda(cudaDeviceGetPCIBusId(me.bus_id, sizeof me.bus_id, comm.device));
  std::strncpy(me.name, comm.name.c_str(), sizeof me.name - 1);
}

// Two ranks must agree on what they join, and not sit on one GPU of one machine.
void compare(ncclComm& comm, int a, int b) {
  const RankState& x = comm.segment.state(a);
  const RankState& y = comm.segment.state(b);
  const std::string ranks = "rank " + std::to_string(b) + " and rank " + std::to_string(a);
  if (x.ranks != y.ranks) {
    throw Failure{ncclInvalidUsage, ranks + " disagree about the number of ranks"};
  }
  if (std::strcmp(x.name, y.name) != 0) {
    throw Failure{ncclInvalidUsage, ranks + " join different communicators: \"" + y.name +
                                        "\" and \"" + x.name + "\""};
  }
  if (x.host == y.host && std::strcmp(x.bus_id, y.bus_id) == 0) {
    throw Failure{ncclInvalidUsage,
                  "Duplicate GPU detected : " + ranks + " both on CUDA device " + y.bus_id};
  }
}

CommPtr join(const Address& address, int ranks, int rank, const std::string& name) {
  int device = 0;
  check_cuda(cudaGetDevice(&device));
  const auto comm = std::make_shared<ncclComm>(address, ranks, rank, name, device);
  Segment& segment = comm->segment;
  introduce(*comm);
  segment.barrier(segment.header().host, "the set-up of " + comm->label());
  try {
    for (int other = 0; other < ranks; ++other) {
      if (other != rank) compare(*comm, std::min(rank, other), std::max(rank, other));
    }
  } catch (const Failure& failure) {
    segment.publish_error(failure);
    throw;
  }
  segment.barrier(segment.header().host, "the set-up of " + comm->label());
  Segment::close_created(address);
  comm->profiler.init(address.cookie, name, ranks, rank);
  std::lock_guard lock(registry().mutex);
  if (registry().world_rank < 0) registry().world_rank = rank;
  registry().comms[comm.get()] = comm;
  return comm;
}

void check_config(const ncclConfig_t* config) {
  if (config && (config->magic != 0xcafebeef || config->size < sizeof(size_t))) {
    throw Failure{ncclInvalidArgument, "ncclConfig_t argument not initialized"};
  }
}

std::string name_in(const ncclConfig_t* config, const std::string& otherwise) {
  return config && config->commName ? config->commName : otherwise;
}

// Ranks of the parent with this color, in the order of the new communicator.
std::vector<int> members(Segment& parent, int color) {
  std::vector<int> result;
  for (int r = 0; r < parent.ranks(); ++r) {
    if (parent.state(r).color == color) result.push_back(r);
  }
  std::stable_sort(result.begin(), result.end(),
                   [&](int a, int b) { return parent.state(a).key < parent.state(b).key; });
  return result;
}

ncclComm_t split(const CommPtr& parent, int color, int key, const std::string& name) {
  Segment& s = parent->segment;
  const std::string what = "a split of " + parent->label();
  s.mine().color = color;
  s.mine().key = key;
  s.barrier(s.header().host, what);
  const std::vector<int> group = members(s, color);
  if (color >= 0 && group.front() == s.rank()) {
    const Address made = Segment::create();
    s.mine().new_pid = made.pid;
    s.mine().new_fd = made.fd;
    s.mine().new_cookie = made.cookie;
  }
  s.barrier(s.header().host, what);
  if (color < 0) return nullptr;
  const RankState& leader = s.state(group.front());
  const Address address{leader.new_pid, leader.new_fd, leader.new_cookie};
  const auto mine = std::find(group.begin(), group.end(), s.rank()) - group.begin();
  return join(address, static_cast<int>(group.size()), static_cast<int>(mine), name).get();
}

void end(ncclComm_t handle, bool abort) {
  const CommPtr comm = find_comm(handle);
  if (abort) comm->segment.abort();
  comm->turn.drain();
  comm->profiler.finish();
  std::lock_guard lock(registry().mutex);
  registry().comms.erase(handle);
}

}  // namespace

CommPtr find_comm(ncclComm_t handle) {
  std::lock_guard lock(registry().mutex);
  const auto found = registry().comms.find(handle);
  if (found == registry().comms.end()) {
    throw Failure{ncclInvalidArgument, "comm argument is no communicator (any more)"};
  }
  return found->second;
}

void set_last_error(const std::string& text) {
  const char* debug = std::getenv("NCCL_DEBUG");
  if (debug && std::strcmp(debug, "VERSION") != 0) {
    std::fprintf(stderr, "NCCL WARN (stand-in) %s\n", text.c_str());
  }
  std::lock_guard lock(registry().mutex);
  registry().last_error = text;
}

int world_rank() {
  std::lock_guard lock(registry().mutex);
  return registry().world_rank;
}

void check_cuda(cudaError_t error) {
  if (error == cudaSuccess) return;
  throw Failure{ncclUnhandledCudaError,
                std::string("Cuda failure '") + cudaGetErrorString(error) + "'"};
}

uint64_t Turn::take() {
  std::lock_guard lock(mutex_);
  return taken_++;
}
void Turn::await(uint64_t ticket) {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [&] { return passed_ == ticket; });
}
void Turn::pass() {
  std::lock_guard lock(mutex_);
  ++passed_;
  moved_.notify_all();
}
void Turn::drain() {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [&] { return passed_ == taken_; });
}

}  // namespace s2t::standin

using namespace s2t::standin;

// As in NCCL: pncclX is the function, ncclX a weak alias that an interposer may replace.
#define S2T_WEAK_ALIAS(name) \
  extern "C" __typeof(pnccl##name) nccl##name __attribute__((weak, alias("pnccl" #name)))

extern "C" {

const char* s2t_stand_in() {
  return "nccl";
}

ncclResult_t pncclGetVersion(int* version) {
  const auto wanted = fault("nccl_version");
  *version = wanted ? std::atoi(wanted->c_str()) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t pncclGetUniqueId(ncclUniqueId* id) {
  return guarded([&] {
    const Address address = Segment::create();
    static_assert(sizeof address <= sizeof id->internal);
    std::memset(id->internal, 0, sizeof id->internal);
    std::memcpy(id->internal, &address, sizeof address);
  });
}

ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                     ncclConfig_t* config) {
  return guarded([&] {
    check_cuda(cudaFree(nullptr));  // as NCCL: the first thing it does with the device
    check_config(config);
    if (ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks) {
      throw Failure{ncclInvalidArgument, "invalid rank requested : " + std::to_string(rank) + "/" +
                                             std::to_string(ranks)};
    }
    Address address;
    std::memcpy(&address, id.internal, sizeof address);
    const std::string name = name_in(config, "");
    *comm = nullptr;
    const auto job = [=] { *comm = join(address, ranks, rank, name).get(); };
    if (!deferred(job)) job();
  });
}
ncclResult_t pncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return pncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t pncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* result,
                            ncclConfig_t* config) {
  return guarded([&] {
    const CommPtr parent = find_comm(handle);
    check_config(config);
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
      throw Failure{ncclInvalidArgument, "invalid color " + std::to_string(color)};
    }
    const std::string name = name_in(config, parent->name);
    *result = nullptr;
    const auto job = [=] { *result = split(parent, color, key, name); };
    if (!deferred(job)) job();
  });
}

ncclResult_t pncclCommFinalize(ncclComm_t comm) {
  return guarded([&] { find_comm(comm)->turn.drain(); });
}
ncclResult_t pncclCommDestroy(ncclComm_t comm) {
  return comm ? guarded([&] { end(comm, false); }) : ncclSuccess;
}
ncclResult_t pncclCommAbort(ncclComm_t comm) {
  return comm ? guarded([&] { end(comm, true); }) : ncclSuccess;
}

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return guarded([&] { *error = find_comm(comm)->error.load(); });
}
ncclResult_t pncclCommCount(const ncclComm_t comm, int* count) {
  return guarded([&] { *count = find_comm(comm)->segment.ranks(); });
}
ncclResult_t pncclCommUserRank(const ncclComm_t comm, int* rank) {
  return guarded([&] { *rank = find_comm(comm)->segment.rank(); });
}
ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int* device) {
  return guarded([&] { *device = find_comm(comm)->device; });
}

const char* pncclGetLastError(ncclComm_t) {
  thread_local std::string copy;
  std::lock_guard lock(registry().mutex);
  copy = registry().last_error;
  return copy.c_str();
}
const char* pncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

ncclResult_t pncclMemAlloc(void** pointer, size_t bytes) {
  return guarded([&] { check_cuda(cudaMalloc(pointer, bytes)); });
}
ncclResult_t pncclMemFree(void* pointer) {
  return guarded([&] { check_cuda(cudaFree(pointer)); });
}

}  // extern "C"

S2T_WEAK_ALIAS(GetVersion);
S2T_WEAK_ALIAS(GetUniqueId);
S2T_WEAK_ALIAS(CommInitRankConfig);
S2T_WEAK_ALIAS(CommInitRank);
S2T_WEAK_ALIAS(CommSplit);
S2T_WEAK_ALIAS(CommFinalize);
S2T_WEAK_ALIAS(CommDestroy);
S2T_WEAK_ALIAS(CommAbort);
S2T_WEAK_ALIAS(CommGetAsyncError);
S2T_WEAK_ALIAS(CommCount);
S2T_WEAK_ALIAS(CommUserRank);
S2T_WEAK_ALIAS(CommCuDevice);
S2T_WEAK_ALIAS(GetLastError);
S2T_WEAK_ALIAS(GetErrorString);
S2T_WEAK_ALIAS(MemAlloc);
S2T_WEAK_ALIAS(MemFree);
