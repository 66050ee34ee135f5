// Witness "pmpi": stands before MPI and writes down every call that moves data.
//
// Preload it, or link it before libmpi. It knows nothing of our code: names come from
// MPI_Comm_get_name, types from MPI_Type_get_name. It cannot see what MPI does inside a call, nor
// data that travels by other means. Calls that move data in a way it does not describe are written
// as "uncovered" (pmpi_uncovered.cc).
#include <mpi.h>

#include <numeric>

#include "runtime/witness/record.h"

S2T_WITNESS("pmpi");

namespace {

using s2t::witness::Line;
using s2t::witness::writer;
using List = std::vector<int64_t>;

struct TypeRow {
  MPI_Datatype type;
  const char* name;
};
const char* builtin_name(MPI_Datatype type) {
  const TypeRow rows[] = {
      {MPI_FLOAT, "float32"},   {MPI_DOUBLE, "float64"}, {MPI_INT, "int32"},
      {MPI_INT32_T, "int32"},   {MPI_INT64_T, "int64"},  {MPI_LONG, "int64"},
      {MPI_LONG_LONG, "int64"}, {MPI_INT8_T, "int8"},    {MPI_BYTE, "uint8"},
      {MPI_UINT8_T, "uint8"},   {MPI_CHAR, "int8"},      {MPI_UINT32_T, "uint32"},
      {MPI_UINT64_T, "uint64"}, {MPI_C_BOOL, "bool"},    {MPI_UINT16_T, "uint16"}};
  for (const TypeRow& row : rows) {
    if (row.type == type) return row.name;
  }
  return nullptr;
}

std::string name_of(MPI_Datatype type) {
  if (const char* name = builtin_name(type)) return name;
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  PMPI_Type_get_name(type, name, &length);
  return name;
}

int64_t size_of(MPI_Datatype type) {
  int bytes = 0;
  PMPI_Type_size(type, &bytes);
  return bytes;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  return size;
}

int rank_in(MPI_Comm comm) {
  int rank = -1;
  PMPI_Comm_rank(comm, &rank);
  return rank;
}

void add_comm(Line& line, MPI_Comm comm) {
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  PMPI_Comm_get_name(comm, name, &length);
  line.add("comm", name).add("comm_size", size_of(comm)).add("comm_rank", rank_in(comm));
}

const char* name_of(MPI_Op op) {
  return op == MPI_SUM    ? "sum"
         : op == MPI_MAX  ? "max"
         : op == MPI_MIN  ? "min"
         : op == MPI_PROD ? "prod"
                          : nullptr;
}

// What one call is; a row is filled by each wrapper below.
struct Seen {
  const char* op;
  const char* call;
  MPI_Comm comm;
  int64_t count;
  MPI_Datatype type;
  int peer = MPI_PROC_NULL;  // none
  MPI_Op reduce = MPI_OP_NULL;
  List send_bytes, recv_bytes;
};

void see(const Seen& seen) {
  static const bool ranked = (writer().set_rank(rank_in(MPI_COMM_WORLD)), true);
  (void)ranked;
  writer().write("call", [&](Line& line) {
    line.add("op", seen.op).add("call", seen.call);
    add_comm(line, seen.comm);
    const bool typed = seen.type != MPI_DATATYPE_NULL;
    line.add("count", seen.count).add("dtype", typed ? name_of(seen.type) : "");
    line.add("bytes", typed ? seen.count * size_of(seen.type) : 0);
    if (seen.peer != MPI_PROC_NULL) {
      line.add("peer", seen.peer == MPI_ANY_SOURCE ? -1 : static_cast<int64_t>(seen.peer));
    }
    if (seen.reduce != MPI_OP_NULL && name_of(seen.reduce)) {
      line.add("reduce", name_of(seen.reduce));
    }
    if (!seen.send_bytes.empty()) line.add("send_bytes", seen.send_bytes);
    if (!seen.recv_bytes.empty()) line.add("recv_bytes", seen.recv_bytes);
  });
}

void see_message(const char* op, const char* call, MPI_Comm comm, int count, MPI_Datatype type,
                 int peer) {
  if (peer != MPI_PROC_NULL) see({op, call, comm, count, type, peer, MPI_OP_NULL, {}, {}});
}

void see_all_to_all(const char* call, MPI_Comm comm, const List& send, MPI_Datatype send_type,
                    const List& recv, MPI_Datatype recv_type) {
  const auto in_bytes = [](List counts, MPI_Datatype type) {
    for (int64_t& count : counts) count *= size_of(type);
    return counts;
  };
  see({"all_to_all", call, comm, std::accumulate(send.begin(), send.end(), int64_t{0}), send_type,
       MPI_PROC_NULL, MPI_OP_NULL, in_bytes(send, send_type), in_bytes(recv, recv_type)});
}

List each(MPI_Comm comm, int count) {
  return List(static_cast<size_t>(size_of(comm)), count);
}
List each(MPI_Comm comm, const int* counts) {
  return List(counts, counts + size_of(comm));
}

}  // namespace

// For pmpi_uncovered.cc.
void s2t_see_uncovered(const char* call) {
  std::fprintf(stderr, "witness pmpi: %s is not covered\n", call);
  writer().write("uncovered", [&](Line& line) { line.add("call", call); });
}

#define ARGS(...) __VA_ARGS__

// A blocking call and its twin that returns a request.
#define BOTH(name, iname, parameters, arguments, ...)           \
  extern "C" int name(ARGS parameters) {                        \
    static constexpr const char* call = #name;                  \
    __VA_ARGS__;                                                \
    return P##name(ARGS arguments);                             \
  }                                                             \
  extern "C" int iname(ARGS parameters, MPI_Request* request) { \
    static constexpr const char* call = #iname;                 \
    __VA_ARGS__;                                                \
    return P##iname(ARGS arguments, request);                   \
  }

BOTH(MPI_Allreduce, MPI_Iallreduce,
     (const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     (send, recv, count, type, op, comm),
     see({"all_reduce", call, comm, count, type, MPI_PROC_NULL, op, {}, {}}))
BOTH(MPI_Reduce, MPI_Ireduce,
     (const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, int root,
      MPI_Comm comm),
     (send, recv, count, type, op, root, comm),
     see({"reduce", call, comm, count, type, root, op, {}, {}}))
BOTH(MPI_Bcast, MPI_Ibcast, (void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm),
     (buffer, count, type, root, comm),
     see({"broadcast", call, comm, count, type, root, MPI_OP_NULL, {}, {}}))
BOTH(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block,
     (const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     (send, recv, count, type, op, comm),
     see({"reduce_scatter", call, comm, count, type, MPI_PROC_NULL, op, {}, {}}))
BOTH(MPI_Reduce_scatter, MPI_Ireduce_scatter,
     (const void* send, void* recv, const int counts[], MPI_Datatype type, MPI_Op op,
      MPI_Comm comm),
     (send, recv, counts, type, op, comm),
     see({"reduce_scatter", call, comm, counts[rank_in(comm)], type, MPI_PROC_NULL, op, {}, {}}))
BOTH(MPI_Allgather, MPI_Iallgather,
     (const void* send, int send_count, MPI_Datatype send_type, void* recv, int recv_count,
      MPI_Datatype recv_type, MPI_Comm comm),
     (send, send_count, send_type, recv, recv_count, recv_type, comm),
     see({"all_gather",
          call,
          comm,
          send == MPI_IN_PLACE ? recv_count : send_count,
          send == MPI_IN_PLACE ? recv_type : send_type,
          MPI_PROC_NULL,
          MPI_OP_NULL,
          {},
          {}}))
BOTH(MPI_Allgatherv, MPI_Iallgatherv,
     (const void* send, int send_count, MPI_Datatype send_type, void* recv, const int counts[],
      const int offsets[], MPI_Datatype recv_type, MPI_Comm comm),
     (send, send_count, send_type, recv, counts, offsets, recv_type, comm),
     see({"all_gather",
          call,
          comm,
          send == MPI_IN_PLACE ? counts[rank_in(comm)] : send_count,
          send == MPI_IN_PLACE ? recv_type : send_type,
          MPI_PROC_NULL,
          MPI_OP_NULL,
          {},
          {}}))
BOTH(
    MPI_Alltoall, MPI_Ialltoall,
    (const void* send, int send_count, MPI_Datatype send_type, void* recv, int recv_count,
     MPI_Datatype recv_type, MPI_Comm comm),
    (send, send_count, send_type, recv, recv_count, recv_type, comm),
    if (send == MPI_IN_PLACE) {
      see_all_to_all(call, comm, each(comm, recv_count), recv_type, each(comm, recv_count),
                     recv_type);
    } else {
      see_all_to_all(call, comm, each(comm, send_count), send_type, each(comm, recv_count),
                     recv_type);
    })
BOTH(
    MPI_Alltoallv, MPI_Ialltoallv,
    (const void* send, const int send_counts[], const int send_offsets[], MPI_Datatype send_type,
     void* recv, const int recv_counts[], const int recv_offsets[], MPI_Datatype recv_type,
     MPI_Comm comm),
    (send, send_counts, send_offsets, send_type, recv, recv_counts, recv_offsets, recv_type, comm),
    if (send == MPI_IN_PLACE) {
      see_all_to_all(call, comm, each(comm, recv_counts), recv_type, each(comm, recv_counts),
                     recv_type);
    } else {
      see_all_to_all(call, comm, each(comm, send_counts), send_type, each(comm, recv_counts),
                     recv_type);
    })
BOTH(MPI_Barrier, MPI_Ibarrier, (MPI_Comm comm), (comm),
     see({"barrier", call, comm, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, MPI_OP_NULL, {}, {}}))
BOTH(MPI_Send, MPI_Isend,
     (const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm),
     (buffer, count, type, peer, tag, comm), see_message("send", call, comm, count, type, peer))

extern "C" {

int MPI_Recv(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
             MPI_Status* status) {
  see_message("recv", "MPI_Recv", comm, count, type, peer);
  return PMPI_Recv(buffer, count, type, peer, tag, comm, status);
}
int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request* request) {
  see_message("recv", "MPI_Irecv", comm, count, type, peer);
  return PMPI_Irecv(buffer, count, type, peer, tag, comm, request);
}
int MPI_Sendrecv(const void* send, int send_count, MPI_Datatype send_type, int to, int send_tag,
                 void* recv, int recv_count, MPI_Datatype recv_type, int from, int recv_tag,
                 MPI_Comm comm, MPI_Status* status) {
  see_message("send", "MPI_Sendrecv", comm, send_count, send_type, to);
  see_message("recv", "MPI_Sendrecv", comm, recv_count, recv_type, from);
  return PMPI_Sendrecv(send, send_count, send_type, to, send_tag, recv, recv_count, recv_type, from,
                       recv_tag, comm, status);
}
int MPI_Finalize() {
  writer().end();
  return PMPI_Finalize();
}

}  // extern "C"
