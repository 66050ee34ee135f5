// Witness "pnccl": stands before NCCL's interface and writes down every call that moves data.
//
// NCCL exports each function twice, ncclX (weak) and pncclX; this library, preloaded, is the ncclX
// that everybody finds, and passes on to pncclX. It sees what was asked, not what ran.
#include <nccl.h>

#include <atomic>
#include <map>

#include "runtime/witness/record.h"

S2T_WITNESS("pnccl");

namespace {

using s2t::witness::Line;
using s2t::witness::writer;

struct DTypeRow {
  ncclDataType_t dtype;
  const char* name;
  int64_t bytes;
};
constexpr DTypeRow kDTypes[] = {
    {ncclInt8, "int8", 1},         {ncclUint8, "uint8", 1},     {ncclInt32, "int32", 4},
    {ncclUint32, "uint32", 4},     {ncclInt64, "int64", 8},     {ncclUint64, "uint64", 8},
    {ncclFloat16, "float16", 2},   {ncclFloat32, "float32", 4}, {ncclFloat64, "float64", 8},
    {ncclBfloat16, "bfloat16", 2},
};
const DTypeRow& row_of(ncclDataType_t dtype) {
  static constexpr DTypeRow kUnknown = {ncclNumTypes, "unknown", 1};  // the 8-bit floats
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype == dtype) return row;
  }
  return kUnknown;
}
const char* name_of(ncclRedOp_t op) {
  static constexpr const char* kNames[] = {"sum", "prod", "max", "min", "avg"};
  return op >= 0 && op < ncclNumOps ? kNames[op] : "custom";
}

// Names of communicators, given when they are made. Inside a group the handle appears only when
// the group ends.
class Names {
 public:
  void learn(ncclComm_t* where, const ncclConfig_t* config, ncclComm_t parent) {
    const char* given = config ? config->commName : nullptr;
    waiting().push_back({where, given ? given : parent ? find(parent) : ""});
  }
  void settle(ncclResult_t result) {
    std::lock_guard lock(mutex_);
    for (const auto& [where, name] : waiting()) {
      if (result == ncclSuccess) names_[*where] = name;
    }
    waiting().clear();
  }
  std::string find(ncclComm_t comm) {
    std::lock_guard lock(mutex_);
    return names_[comm];
  }

 private:
  // Groups belong to threads, and so does what waits for the end of one.
  static std::vector<std::pair<ncclComm_t*, std::string>>& waiting() {
    thread_local std::vector<std::pair<ncclComm_t*, std::string>> list;
    return list;
  }

  std::mutex mutex_;
  std::map<ncclComm_t, std::string> names_;
};
Names& names() {
  static auto* instance = new Names;
  return *instance;
}

thread_local int depth = 0;
thread_local int64_t group = 0;
int64_t next_group() {
  static std::atomic<int64_t> count{0};
  return count++;
}
int64_t current_group() {
  return depth > 0 ? group : next_group();
}

struct Seen {
  const char* op;
  const char* call;
  ncclComm_t comm;
  size_t count;
  ncclDataType_t dtype;
  int peer = -1;
  const char* reduce = nullptr;
};

void add_comm(Line& line, ncclComm_t comm) {
  int size = -1, rank = -1;
  pncclCommCount(comm, &size);
  pncclCommUserRank(comm, &rank);
  line.add("comm", names().find(comm)).add("comm_size", size).add("comm_rank", rank);
}

void see(const Seen& seen) {
  const int64_t number = current_group();
  const DTypeRow& dtype = row_of(seen.dtype);
  writer().write("call", [&](Line& line) {
    line.add("op", seen.op).add("call", seen.call);
    add_comm(line, seen.comm);
    const int64_t count = static_cast<int64_t>(seen.count);
    line.add("count", count).add("dtype", dtype.name).add("bytes", count * dtype.bytes);
    if (seen.peer >= 0) line.add("peer", seen.peer);
    if (seen.reduce) line.add("reduce", seen.reduce);
    line.add("group", number);
  });
}

// All parts of an all-to-all are equal; `count` of the call is per rank, of the line the sum.
void see_all_to_all(const char* call, ncclComm_t comm, size_t count, ncclDataType_t dtype) {
  int size = 0;
  pncclCommCount(comm, &size);
  see({"all_to_all", call, comm, count * static_cast<size_t>(size), dtype});
}

ncclResult_t checked(const char* call, ncclResult_t result) {
  if (result == ncclSuccess) return result;
  writer().write("error", [&](Line& line) {
    line.add("call", call).add("result", static_cast<int64_t>(result));
    line.add("text", pncclGetLastError(nullptr));
  });
  return result;
}

}  // namespace

extern "C" {

ncclResult_t ncclGroupStart() {
  if (depth++ == 0) group = next_group();
  return pncclGroupStart();
}
ncclResult_t ncclGroupEnd() {
  if (depth > 0) --depth;
  const ncclResult_t result = pncclGroupEnd();
  if (depth == 0) names().settle(result);
  return checked("ncclGroupEnd", result);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  names().learn(comm, config, nullptr);
  const ncclResult_t result = pncclCommInitRankConfig(comm, ranks, id, rank, config);
  if (depth == 0) names().settle(result);
  return checked("ncclCommInitRankConfig", result);
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return checked("ncclCommInitRank", pncclCommInitRank(comm, ranks, id, rank));
}
ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* comm,
                           ncclConfig_t* config) {
  names().learn(comm, config, parent);
  const ncclResult_t result = pncclCommSplit(parent, color, key, comm, config);
  if (depth == 0) names().settle(result);
  return checked("ncclCommSplit", result);
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  writer().end();
  return checked("ncclCommDestroy", pncclCommDestroy(comm));
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  writer().end();
  return checked("ncclCommAbort", pncclCommAbort(comm));
}

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t dtype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  see({"all_reduce", __func__, comm, count, dtype, -1, name_of(op)});
  return checked(__func__, pncclAllReduce(send, recv, count, dtype, op, comm, stream));
}
ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t dtype,
                           ncclComm_t comm, cudaStream_t stream) {
  see({"all_gather", __func__, comm, count, dtype});
  return checked(__func__, pncclAllGather(send, recv, count, dtype, comm, stream));
}
ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t dtype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  see({"reduce_scatter", __func__, comm, count, dtype, -1, name_of(op)});
  return checked(__func__, pncclReduceScatter(send, recv, count, dtype, op, comm, stream));
}
ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t dtype,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  see({"broadcast", __func__, comm, count, dtype, root});
  return checked(__func__, pncclBroadcast(send, recv, count, dtype, root, comm, stream));
}
ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t dtype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  see({"broadcast", __func__, comm, count, dtype, root});
  return checked(__func__, pncclBroadcast(buffer, buffer, count, dtype, root, comm, stream));
}
ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t dtype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  see({"reduce", __func__, comm, count, dtype, root, name_of(op)});
  return checked(__func__, pncclReduce(send, recv, count, dtype, op, root, comm, stream));
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t dtype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  see({"send", __func__, comm, count, dtype, peer});
  return checked(__func__, pncclSend(send, count, dtype, peer, comm, stream));
}
ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  see({"recv", __func__, comm, count, dtype, peer});
  return checked(__func__, pncclRecv(recv, count, dtype, peer, comm, stream));
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count, ncclDataType_t dtype,
                          ncclComm_t comm, cudaStream_t stream) {
  see_all_to_all(__func__, comm, count, dtype);
  return checked(__func__, pncclAlltoAll(send, recv, count, dtype, comm, stream));
}

// Calls that move data and that no line describes.
ncclResult_t ncclGather(const void* send, void* recv, size_t count, ncclDataType_t dtype, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  writer().write("uncovered", [](Line& line) { line.add("call", "ncclGather"); });
  return pncclGather(send, recv, count, dtype, root, comm, stream);
}
ncclResult_t ncclScatter(const void* send, void* recv, size_t count, ncclDataType_t dtype, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  writer().write("uncovered", [](Line& line) { line.add("call", "ncclScatter"); });
  return pncclScatter(send, recv, count, dtype, root, comm, stream);
}
#endif

}  // extern "C"
