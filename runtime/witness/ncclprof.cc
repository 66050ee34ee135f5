// Witness "ncclprof": a profiler plugin, asked by NCCL itself what it plans and launches.
//
// Set NCCL_PROFILER_PLUGIN to its path. It offers the tables v4 (NCCL 2.27), v5 (2.28) and v6
// (2.29, 2.30); NCCL takes the newest it knows. Layouts are written out here and checked at compile
// time, so no NCCL source is needed. It cannot see communicators of one rank or empty collectives,
// which NCCL never plans.
//
// NCCL's facts that matter: an event handle may be used long after `stop`, so none is ever freed;
// kernel channel events come from another thread; the rank in an event may be 0, so it is taken
// from `init`; NCCL closes the library with its last communicator, so this one refuses to unload.
#include <atomic>
#include <cstddef>
#include <cstring>

#include "runtime/witness/record.h"

S2T_WITNESS("ncclprof");

namespace {

using s2t::witness::Line;
using s2t::witness::writer;

enum Event : uint64_t {
  kColl = 1 << 1,
  kP2p = 1 << 2,
  kKernelChannel = 1 << 6,
  kKernelLaunch = 1 << 11,  // from v5
  kCopyEngine = 1 << 12,    // from v6
};

// The members that we read are at the same places in v4, v5 and v6; only `type` has 1 byte in v4.
struct Coll {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* recv;
  size_t count;
  int root;
  const char* dtype;
};
struct P2p {
  const char* function;
  void* buffer;
  const char* dtype;
  size_t count;
  int peer;
};
struct Descriptor {
  uint64_t type;
  void* parent;
  int rank;
  union {
    Coll coll;
    P2p p2p;
    char all[88];
  };
};
static_assert(offsetof(Descriptor, parent) == 8 && offsetof(Descriptor, rank) == 16);
static_assert(offsetof(Descriptor, coll) == 24 && sizeof(Descriptor) == 112);
static_assert(offsetof(Coll, function) == 8 && offsetof(Coll, send) == 16);
static_assert(offsetof(Coll, recv) == 24 && offsetof(Coll, count) == 32);
static_assert(offsetof(Coll, root) == 40 && offsetof(Coll, dtype) == 48);
static_assert(offsetof(P2p, buffer) == 8 && offsetof(P2p, dtype) == 16);
static_assert(offsetof(P2p, count) == 24 && offsetof(P2p, peer) == 32);

using Result = int;  // ncclResult_t; 0 is success
using Logger = void (*)(int, unsigned long, const char*, int, const char*, ...);

// One communicator. Leaked: late events may still name it.
struct Context {
  std::string name;
  int size, rank;
  std::atomic<int64_t> channels{0};
};

struct Row {
  const char* theirs;
  const char* ours;
  int64_t bytes;  // of a type
};
constexpr Row kFunctions[] = {
    {"AllReduce", "all_reduce", 0},
    {"AllGather", "all_gather", 0},
    {"ReduceScatter", "reduce_scatter", 0},
    {"Broadcast", "broadcast", 0},
    {"Reduce", "reduce", 0},
    {"Send", "send", 0},
    {"Recv", "recv", 0},
    {"AlltoAll", "all_to_all", 0},
};
constexpr Row kDTypes[] = {
    {"ncclInt8", "int8", 1},         {"ncclUint8", "uint8", 1},
    {"ncclInt32", "int32", 4},       {"ncclUint32", "uint32", 4},
    {"ncclInt64", "int64", 8},       {"ncclUint64", "uint64", 8},
    {"ncclFloat16", "float16", 2},   {"ncclFloat32", "float32", 4},
    {"ncclFloat64", "float64", 8},   {"ncclBfloat16", "bfloat16", 2},
    {"ncclFloat8e4m3", "float8", 1}, {"ncclFloat8e5m2", "float8", 1},
};
template <size_t N>
const Row* find(const Row (&rows)[N], const char* theirs) {
  for (const Row& row : rows) {
    if (theirs && std::strcmp(row.theirs, theirs) == 0) return &row;
  }
  return nullptr;
}

void add_comm(Line& line, const Context& context) {
  line.add("comm", context.name).add("comm_size", context.size).add("comm_rank", context.rank);
}

void see(const Context& context, const char* call, const char* function, size_t count,
         const char* dtype, int peer) {
  const Row* op = find(kFunctions, function);
  const Row* type = find(kDTypes, dtype);
  writer().write(op && type ? "call" : "uncovered", [&](Line& line) {
    line.add("op", op ? op->ours : function ? function : "").add("call", call);
    add_comm(line, context);
    line.add("count", static_cast<int64_t>(count));
    line.add("dtype", type ? type->ours : dtype ? dtype : "");
    line.add("bytes", static_cast<int64_t>(count) * (type ? type->bytes : 0));
    if (peer >= 0) line.add("peer", peer);
  });
}

// Only these two have a root; NCCL hands over 0 for the others.
bool rooted(const char* function) {
  return function && (!std::strcmp(function, "Broadcast") || !std::strcmp(function, "Reduce"));
}

Result init(void** where, int* mask, const char* name, int size, int rank, uint64_t wanted) {
  auto* context = new Context{name ? name : "", size, rank};
  *where = context;
  *mask = static_cast<int>(wanted);
  return 0;
}

Result start(void* where, void** handle, const Descriptor& event, uint64_t type) {
  static int token;  // any address: NCCL tells of a kernel only under a parent that is not null
  auto& context = *static_cast<Context*>(where);
  *handle = &token;
  if (type == kColl || type == kCopyEngine) {
    const Coll& c = event.coll;
    see(context, type == kColl ? "Coll" : "CeColl", c.function, c.count, c.dtype,
        rooted(c.function) ? c.root : -1);
  } else if (type == kP2p) {
    see(context, "P2p", event.p2p.function, event.p2p.count, event.p2p.dtype, event.p2p.peer);
  } else if (type == kKernelLaunch) {
    writer().write("launch", [&](Line& line) { add_comm(line, context); });
  } else if (type == kKernelChannel) {
    ++context.channels;
  }
  return 0;
}

Result start_wide(void* where, void** handle, Descriptor* event) {
  return start(where, handle, *event, event->type);
}
Result start_v4(void* where, void** handle, Descriptor* event) {
  return start(where, handle, *event, event->type & 0xFF);
}
Result stop(void*) {
  return 0;
}
Result record_state(void*, int, void*) {
  return 0;
}
Result finalize(void* where) {
  const auto& context = *static_cast<Context*>(where);
  writer().write("channels", [&](Line& line) {
    add_comm(line, context);
    line.add("count", context.channels.load());
  });
  writer().end();
  return 0;
}

Result init_v4(void** where, int* mask, const char* name, uint64_t, int, int size, int rank,
               Logger) {
  return init(where, mask, name, size, rank, kColl | kP2p | kKernelChannel);
}
Result init_v5(void** where, uint64_t, int* mask, const char* name, int, int size, int rank,
               Logger) {
  return init(where, mask, name, size, rank, kColl | kP2p | kKernelChannel | kKernelLaunch);
}
Result init_v6(void** where, uint64_t, int* mask, const char* name, int, int size, int rank,
               Logger) {
  return init(where, mask, name, size, rank,
              kColl | kP2p | kKernelChannel | kKernelLaunch | kCopyEngine);
}

template <class Init>
struct Table {
  const char* name;
  Init init;
  Result (*start)(void*, void**, Descriptor*);
  Result (*stop)(void*);
  Result (*record_state)(void*, int, void*);
  Result (*finalize)(void*);
};
template <class Init>
Table(const char*, Init, Result (*)(void*, void**, Descriptor*), Result (*)(void*),
      Result (*)(void*, int, void*), Result (*)(void*)) -> Table<Init>;

}  // namespace

extern "C" {
extern const Table<decltype(&init_v4)> ncclProfiler_v4;
extern const Table<decltype(&init_v5)> ncclProfiler_v5;
extern const Table<decltype(&init_v6)> ncclProfiler_v6;
const Table<decltype(&init_v4)> ncclProfiler_v4{"s2t", init_v4,      start_v4,
                                                stop,  record_state, finalize};
const Table<decltype(&init_v5)> ncclProfiler_v5{"s2t", init_v5,      start_wide,
                                                stop,  record_state, finalize};
const Table<decltype(&init_v6)> ncclProfiler_v6{"s2t", init_v6,      start_wide,
                                                stop,  record_state, finalize};
}
