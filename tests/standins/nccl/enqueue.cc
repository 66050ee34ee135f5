// The data calls: checked, collected per group, and launched as one kernel per communicator.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <list>
#include <thread>

#include "tests/standins/fault.h"
#include "tests/standins/hooks.h"
#include "tests/standins/nccl/comm.h"

namespace s2t::standin {
namespace {

struct DTypeRow {
  ncclDataType_t dtype;
  const char* name;
  size_t bytes;
};
constexpr DTypeRow kDTypes[] = {
    {ncclInt8, "ncclInt8", 1},       {ncclUint8, "ncclUint8", 1},
    {ncclInt32, "ncclInt32", 4},     {ncclUint32, "ncclUint32", 4},
    {ncclInt64, "ncclInt64", 8},     {ncclUint64, "ncclUint64", 8},
    {ncclFloat16, "ncclFloat16", 2}, {ncclFloat32, "ncclFloat32", 4},
    {ncclFloat64, "ncclFloat64", 8}, {ncclBfloat16, "ncclBfloat16", 2},
};

const DTypeRow* find(ncclDataType_t dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

// --- checks ----------------------------------------------------------------------------------
void require(bool condition, const Task& task, const std::string& why) {
  if (!condition) throw Failure{ncclInvalidArgument, to_string(task) + ": " + why};
}

void check_buffer(const Task& task, const char* what, const char* start, size_t bytes) {
  if (bytes == 0) return;
  const size_t room = s2t_stand_in_room(start);
  require(room > 0, task, std::string(what) + " is not a valid device pointer");
  require(
      room >= bytes, task,
      std::string(what) + " ends " + std::to_string(bytes - room) + " bytes after its allocation");
}

// Buffers may coincide as NCCL's in-place rules say, and not overlap in any other way.
void check_buffers(const ncclComm& comm, const Task& t) {
  const size_t ranks = static_cast<size_t>(comm.segment.ranks());
  const size_t rank = static_cast<size_t>(comm.segment.rank());
  const bool root = t.peer == comm.segment.rank();
  const bool gather = t.op == Op::all_gather, scatter = t.op == Op::reduce_scatter;
  const bool sends = t.op != Op::recv && (t.op != Op::broadcast || root);
  const bool receives = t.op != Op::send && (t.op != Op::reduce || root);
  const size_t send_bytes = sends ? t.bytes() * (scatter ? ranks : 1) : 0;
  const size_t recv_bytes = receives ? t.bytes() * (gather ? ranks : 1) : 0;
  check_buffer(t, "sendbuff", t.send, send_bytes);
  check_buffer(t, "recvbuff", t.recv, recv_bytes);
  if (send_bytes == 0 || recv_bytes == 0) return;
  const bool overlap = t.send < t.recv + recv_bytes && t.recv < t.send + send_bytes;
  const bool in_place =
      t.send + (scatter ? rank * t.bytes() : 0) == t.recv + (gather ? rank * t.bytes() : 0);
  require(!overlap || in_place, t, "sendbuff and recvbuff overlap");
}

void check(const ncclComm& comm, const Task& task) {
  if (comm.error.load() != ncclSuccess) {
    throw Failure{comm.error.load(),
                  comm.label() + " failed before: " + pncclGetLastError(nullptr)};
  }
  require(find(task.dtype), task, "invalid type");
  require(task.redop >= ncclSum && task.redop < ncclNumOps, task, "invalid reduction");
  require(task.peer >= 0 && task.peer < comm.segment.ranks(), task, "invalid root or peer");
  check_buffers(comm, task);
}

// --- launch ----------------------------------------------------------------------------------
struct Launch {
  CommPtr comm;
  std::vector<Task> tasks;
  uint64_t turn;
  uint64_t number;  // of this process, from 1; 0 when it makes no kernel in NCCL
  void* parent;     // profiler handle of the first task
};

bool visible(const ncclComm& comm, const Task& task) {
  return comm.segment.ranks() > 1 && (is_p2p(task.op) || task.count > 0);
}

// Real NCCL plans a group by falling traffic and puts messages last.
void order(const ncclComm& comm, std::vector<Task>& tasks) {
  const auto traffic = [&](const Task& t) -> size_t {
    if (is_p2p(t.op)) return 0;
    const bool n = t.op == Op::all_gather || t.op == Op::reduce_scatter;
    return 1 + t.bytes() * (t.op == Op::all_reduce ? 2 : n ? comm.segment.ranks() : 1);
  };
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](const Task& a, const Task& b) { return traffic(a) > traffic(b); });
}

void inject(ncclComm& comm, uint64_t number) {
  if (fault_at("die", world_rank(), number)) std::raise(SIGKILL);
  while (fault_at("stall", world_rank(), number) && !comm.segment.aborted()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (fault_at("async", world_rank(), number)) {
    const Failure failure{ncclSystemError, comm.label() + ": an injected asynchronous error"};
    comm.error.store(failure.code);
    set_last_error(failure.text);
    comm.segment.publish_error(failure);
  }
}

void run_kernel(void* data) {
  const std::unique_ptr<Launch> launch(static_cast<Launch*>(data));
  ncclComm& comm = *launch->comm;
  comm.turn.await(launch->turn);
  if (launch->number > 0) inject(comm, launch->number);
  run_tasks(comm, launch->tasks);
  if (launch->number > 0) comm.profiler.kernel_channel(launch->parent);
  comm.turn.pass();
}

// Work on `waiter` waits for what is on `source` by now.
void follow(cudaStream_t waiter, cudaStream_t source) {
  if (waiter == source) return;
  cudaEvent_t event;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  check_cuda(cudaEventRecord(event, source));
  check_cuda(cudaStreamWaitEvent(waiter, event, 0));
  check_cuda(cudaEventDestroy(event));
}

void launch(const CommPtr& comm, std::vector<Task> tasks) {
  static std::atomic<uint64_t> kernels{0};
  order(*comm, tasks);
  const cudaStream_t stream = tasks.front().stream;
  for (const Task& task : tasks) follow(stream, task.stream);
  uint64_t number = 0;
  void* parent = nullptr;
  for (Task& task : tasks) {
    if (!visible(*comm, task)) continue;
    if (number == 0) number = ++kernels;
    comm->profiler.start(task, comm->segment.rank());
    if (!parent) parent = task.event;
  }
  if (number > 0) comm->profiler.launch(stream);
  for (Task& task : tasks) comm->profiler.stop(task);
  auto* work = new Launch{comm, tasks, comm->turn.take(), number, parent};
  const cudaError_t error = cudaLaunchHostFunc(stream, run_kernel, work);
  if (error != cudaSuccess) {
    comm->turn.pass();
    delete work;
    check_cuda(error);
  }
  for (const Task& task : tasks) follow(task.stream, stream);
}

// --- groups ----------------------------------------------------------------------------------
struct Group {
  int depth = 0;
  std::vector<std::function<void()>> jobs;  // communicators to make
  std::list<std::pair<CommPtr, std::vector<Task>>> work;
  Failure failure{ncclSuccess, ""};  // the first one; then nothing is launched

  void add(const CommPtr& comm, const Task& task) {
    auto found = std::find_if(work.begin(), work.end(),
                              [&](const auto& item) { return item.first == comm; });
    if (found == work.end()) found = work.insert(work.end(), {comm, {}});
    found->second.push_back(task);
  }
};
thread_local Group group;

// Communicators made in one group are made side by side: each call waits for other ranks.
void run_jobs(const std::vector<std::function<void()>>& jobs, Failure* failure) {
  int device = 0;
  check_cuda(cudaGetDevice(&device));
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (const auto& job : jobs) {
    threads.emplace_back([&, device] {
      cudaSetDevice(device);
      const ncclResult_t code = guarded(job);
      std::lock_guard lock(mutex);
      if (code != ncclSuccess) *failure = {code, pncclGetLastError(nullptr)};
    });
  }
  for (std::thread& thread : threads) thread.join();
}

ncclResult_t end_group() {
  if (--group.depth > 0) return ncclSuccess;
  Group done;
  std::swap(done, group);
  return guarded([&] {
    if (!done.jobs.empty()) run_jobs(done.jobs, &done.failure);
    if (done.failure.code != ncclSuccess) throw done.failure;
    for (auto& [comm, tasks] : done.work) launch(comm, std::move(tasks));
  });
}

// A data call is a group of its own unless it stands in one.
template <class Fill>
ncclResult_t call(ncclComm_t handle, Fill&& fill) {
  static std::atomic<uint64_t> calls{0};
  ++group.depth;
  const ncclResult_t code = guarded([&] {
    const CommPtr comm = find_comm(handle);
    if (fault_at("refuse", world_rank(), ++calls)) {
      throw Failure{ncclSystemError, comm->label() + ": an injected refusal"};
    }
    fill(comm);
  });
  if (code != ncclSuccess && group.failure.code == ncclSuccess) {
    group.failure = {code, pncclGetLastError(nullptr)};
  }
  const ncclResult_t end = end_group();
  return code != ncclSuccess ? code : end;
}

ncclResult_t submit(ncclComm_t handle, Op op, const void* send, void* recv, size_t count,
                    ncclDataType_t dtype, ncclRedOp_t redop, int peer, cudaStream_t stream) {
  return call(handle, [&](const CommPtr& comm) {
    const Task task{op,
                    static_cast<const char*>(send),
                    static_cast<char*>(recv),
                    count,
                    dtype,
                    redop,
                    peer,
                    stream,
                    nullptr};
    check(*comm, task);
    group.add(comm, task);
  });
}

}  // namespace

size_t size_of(ncclDataType_t dtype) {
  const DTypeRow* row = find(dtype);
  return row ? row->bytes : 0;
}
const char* name_of(ncclDataType_t dtype) {
  const DTypeRow* row = find(dtype);
  return row ? row->name : "ncclUnknown";
}
const char* name_of(Op op) {
  static constexpr const char* kNames[] = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast",
                                           "Reduce",    "Send",      "Recv"};
  return kNames[static_cast<int>(op)];
}

std::string to_string(const Task& task) {
  static constexpr const char* kReductions[] = {"sum", "prod", "max", "min", "avg"};
  std::string text = std::string(name_of(task.op)) + "(count " + std::to_string(task.count) + ", " +
                     name_of(task.dtype);
  const bool reduces =
      task.op == Op::all_reduce || task.op == Op::reduce_scatter || task.op == Op::reduce;
  if (reduces && task.redop < ncclNumOps) text += std::string(", ") + kReductions[task.redop];
  if (task.op == Op::broadcast || task.op == Op::reduce) {
    text += ", root " + std::to_string(task.peer);
  }
  if (is_p2p(task.op)) text += ", peer " + std::to_string(task.peer);
  return text + ")";
}

bool deferred(std::function<void()> job) {
  if (group.depth == 0) return false;
  group.jobs.push_back(std::move(job));
  return true;
}

}  // namespace s2t::standin

using namespace s2t::standin;

#define S2T_WEAK_ALIAS(name) \
  extern "C" __typeof(pnccl##name) nccl##name __attribute__((weak, alias("pnccl" #name)))

extern "C" {

ncclResult_t pncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}
ncclResult_t pncclGroupEnd() {
  if (group.depth == 0) {
    set_last_error("ncclGroupEnd: not in a group call.");
    return ncclInvalidUsage;
  }
  return end_group();
}

ncclResult_t pncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t dtype,
                            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, Op::all_reduce, send, recv, count, dtype, op, 0, stream);
}
ncclResult_t pncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t dtype,
                            ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, Op::all_gather, send, recv, count, dtype, ncclSum, 0, stream);
}
ncclResult_t pncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t dtype,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, Op::reduce_scatter, send, recv, count, dtype, op, 0, stream);
}
ncclResult_t pncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t dtype,
                            int root, ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, Op::broadcast, send, recv, count, dtype, ncclSum, root, stream);
}
ncclResult_t pncclBcast(void* buffer, size_t count, ncclDataType_t dtype, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return pncclBroadcast(buffer, buffer, count, dtype, root, comm, stream);
}
ncclResult_t pncclReduce(const void* send, void* recv, size_t count, ncclDataType_t dtype,
                         ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, Op::reduce, send, recv, count, dtype, op, root, stream);
}
ncclResult_t pncclSend(const void* send, size_t count, ncclDataType_t dtype, int peer,
                       ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, Op::send, send, nullptr, count, dtype, ncclSum, peer, stream);
}
ncclResult_t pncclRecv(void* recv, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                       cudaStream_t stream) {
  return submit(comm, Op::recv, nullptr, recv, count, dtype, ncclSum, peer, stream);
}

// As NCCL 2.28: n sends and n receives, the rank itself included; nothing for a count of 0.
ncclResult_t pncclAlltoAll(const void* send, void* recv, size_t count, ncclDataType_t dtype,
                           ncclComm_t handle, cudaStream_t stream) {
  return call(handle, [&](const CommPtr& comm) {
    const int ranks = comm->segment.ranks(), rank = comm->segment.rank();
    const size_t bytes = count * size_of(dtype);
    for (int delta = 0; delta < ranks && count > 0; ++delta) {
      const int to = (rank + delta) % ranks, from = (rank - delta + ranks) % ranks;
      const Task out{Op::send, static_cast<const char*>(send) + to * bytes,
                     nullptr,  count,
                     dtype,    ncclSum,
                     to,       stream,
                     nullptr};
      const Task in{Op::recv, nullptr, static_cast<char*>(recv) + from * bytes,
                    count,    dtype,   ncclSum,
                    from,     stream,  nullptr};
      check(*comm, out);
      check(*comm, in);
      group.add(comm, out);
      group.add(comm, in);
    }
  });
}

// Both are messages with the root, the root's own included.
ncclResult_t pncclGather(const void* send, void* recv, size_t count, ncclDataType_t dtype, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  int ranks = 0, rank = 0;
  if (const ncclResult_t bad = pncclCommCount(comm, &ranks)) return bad;
  if (const ncclResult_t bad = pncclCommUserRank(comm, &rank)) return bad;
  pncclGroupStart();
  pncclSend(send, count, dtype, root, comm, stream);
  for (int r = 0; r < ranks && rank == root; ++r) {
    pncclRecv(static_cast<char*>(recv) + r * count * size_of(dtype), count, dtype, r, comm, stream);
  }
  return pncclGroupEnd();
}
ncclResult_t pncclScatter(const void* send, void* recv, size_t count, ncclDataType_t dtype,
                          int root, ncclComm_t comm, cudaStream_t stream) {
  int ranks = 0, rank = 0;
  if (const ncclResult_t bad = pncclCommCount(comm, &ranks)) return bad;
  if (const ncclResult_t bad = pncclCommUserRank(comm, &rank)) return bad;
  pncclGroupStart();
  for (int r = 0; r < ranks && rank == root; ++r) {
    const char* part = static_cast<const char*>(send) + r * count * size_of(dtype);
    pncclSend(part, count, dtype, r, comm, stream);
  }
  pncclRecv(recv, count, dtype, root, comm, stream);
  return pncclGroupEnd();
}

}  // extern "C"

S2T_WEAK_ALIAS(GroupStart);
S2T_WEAK_ALIAS(GroupEnd);
S2T_WEAK_ALIAS(AllReduce);
S2T_WEAK_ALIAS(AllGather);
S2T_WEAK_ALIAS(ReduceScatter);
S2T_WEAK_ALIAS(Broadcast);
S2T_WEAK_ALIAS(Bcast);
S2T_WEAK_ALIAS(Reduce);
S2T_WEAK_ALIAS(Send);
S2T_WEAK_ALIAS(Recv);
S2T_WEAK_ALIAS(AlltoAll);
S2T_WEAK_ALIAS(Gather);
S2T_WEAK_ALIAS(Scatter);
