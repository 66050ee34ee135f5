// The calls of MPI 3.1 that move data and that the witness "pmpi" cannot describe. They are passed
// on and written down as uncovered, which whoever compares must treat as a failure.
#include <mpi.h>

void s2t_see_uncovered(const char* call);

#define ARGS(...) __VA_ARGS__
#define UNCOVERED(name, parameters, arguments) \
  extern "C" int name(ARGS parameters) {       \
    s2t_see_uncovered(#name);                  \
    return P##name(ARGS arguments);            \
  }
#define UNCOVERED_BOTH(name, iname, parameters, arguments) \
  UNCOVERED(name, parameters, arguments)                   \
  UNCOVERED(iname, (ARGS parameters, MPI_Request * request), (ARGS arguments, request))

#define ROOTED \
  (const void* s, int sn, MPI_Datatype st, void* r, int rn, MPI_Datatype rt, int root, MPI_Comm c)
#define NEIGHBOR \
  (const void* s, int sn, MPI_Datatype st, void* r, int rn, MPI_Datatype rt, MPI_Comm c)
UNCOVERED_BOTH(MPI_Gather, MPI_Igather, ROOTED, (s, sn, st, r, rn, rt, root, c))
UNCOVERED_BOTH(MPI_Scatter, MPI_Iscatter, ROOTED, (s, sn, st, r, rn, rt, root, c))
UNCOVERED_BOTH(MPI_Neighbor_allgather, MPI_Ineighbor_allgather, NEIGHBOR, (s, sn, st, r, rn, rt, c))
UNCOVERED_BOTH(MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall, NEIGHBOR, (s, sn, st, r, rn, rt, c))
UNCOVERED_BOTH(MPI_Gatherv, MPI_Igatherv,
               (const void* s, int sn, MPI_Datatype st, void* r, const int rn[], const int ro[],
                MPI_Datatype rt, int root, MPI_Comm c),
               (s, sn, st, r, rn, ro, rt, root, c))
UNCOVERED_BOTH(MPI_Scatterv, MPI_Iscatterv,
               (const void* s, const int sn[], const int so[], MPI_Datatype st, void* r, int rn,
                MPI_Datatype rt, int root, MPI_Comm c),
               (s, sn, so, st, r, rn, rt, root, c))
UNCOVERED_BOTH(MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv,
               (const void* s, int sn, MPI_Datatype st, void* r, const int rn[], const int ro[],
                MPI_Datatype rt, MPI_Comm c),
               (s, sn, st, r, rn, ro, rt, c))
UNCOVERED_BOTH(MPI_Neighbor_alltoallv, MPI_Ineighbor_alltoallv,
               (const void* s, const int sn[], const int so[], MPI_Datatype st, void* r,
                const int rn[], const int ro[], MPI_Datatype rt, MPI_Comm c),
               (s, sn, so, st, r, rn, ro, rt, c))
UNCOVERED_BOTH(MPI_Neighbor_alltoallw, MPI_Ineighbor_alltoallw,
               (const void* s, const int sn[], const MPI_Aint so[], const MPI_Datatype st[],
                void* r, const int rn[], const MPI_Aint ro[], const MPI_Datatype rt[], MPI_Comm c),
               (s, sn, so, st, r, rn, ro, rt, c))
UNCOVERED_BOTH(MPI_Alltoallw, MPI_Ialltoallw,
               (const void* s, const int sn[], const int so[], const MPI_Datatype st[], void* r,
                const int rn[], const int ro[], const MPI_Datatype rt[], MPI_Comm c),
               (s, sn, so, st, r, rn, ro, rt, c))
UNCOVERED_BOTH(MPI_Scan, MPI_Iscan,
               (const void* s, void* r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c),
               (s, r, n, t, op, c))
UNCOVERED_BOTH(MPI_Exscan, MPI_Iexscan,
               (const void* s, void* r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c),
               (s, r, n, t, op, c))

#define MESSAGE (const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm c)
#define MESSAGE_ARGS (b, n, t, peer, tag, c)
UNCOVERED_BOTH(MPI_Bsend, MPI_Ibsend, MESSAGE, MESSAGE_ARGS)
UNCOVERED_BOTH(MPI_Ssend, MPI_Issend, MESSAGE, MESSAGE_ARGS)
UNCOVERED_BOTH(MPI_Rsend, MPI_Irsend, MESSAGE, MESSAGE_ARGS)
#define PERSISTENT(name)                                                                           \
  UNCOVERED(name,                                                                                  \
            (const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm c, MPI_Request* q), \
            (b, n, t, peer, tag, c, q))
PERSISTENT(MPI_Send_init)
PERSISTENT(MPI_Bsend_init)
PERSISTENT(MPI_Ssend_init)
PERSISTENT(MPI_Rsend_init)
UNCOVERED(MPI_Recv_init,
          (void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm c, MPI_Request* q),
          (b, n, t, peer, tag, c, q))
UNCOVERED(MPI_Mrecv, (void* b, int n, MPI_Datatype t, MPI_Message* m, MPI_Status* q),
          (b, n, t, m, q))
UNCOVERED(MPI_Imrecv, (void* b, int n, MPI_Datatype t, MPI_Message* m, MPI_Request* q),
          (b, n, t, m, q))
UNCOVERED(MPI_Sendrecv_replace,
          (void* b, int n, MPI_Datatype t, int to, int st, int from, int rt, MPI_Comm c,
           MPI_Status* q),
          (b, n, t, to, st, from, rt, c, q))

#define WINDOW(name, rname, pointer, more, more_args)                                          \
  UNCOVERED(name,                                                                              \
            (pointer b, int n, MPI_Datatype t, int peer, MPI_Aint at, int rn, MPI_Datatype rt, \
             ARGS more MPI_Win w),                                                             \
            (b, n, t, peer, at, rn, rt, ARGS more_args w))                                     \
  UNCOVERED(rname,                                                                             \
            (pointer b, int n, MPI_Datatype t, int peer, MPI_Aint at, int rn, MPI_Datatype rt, \
             ARGS more MPI_Win w, MPI_Request* q),                                             \
            (b, n, t, peer, at, rn, rt, ARGS more_args w, q))
WINDOW(MPI_Put, MPI_Rput, const void*, (), ())
WINDOW(MPI_Get, MPI_Rget, void*, (), ())
WINDOW(MPI_Accumulate, MPI_Raccumulate, const void*, (MPI_Op op, ), (op, ))
UNCOVERED(MPI_Get_accumulate,
          (const void* b, int n, MPI_Datatype t, void* r, int rn, MPI_Datatype rt, int peer,
           MPI_Aint at, int tn, MPI_Datatype tt, MPI_Op op, MPI_Win w),
          (b, n, t, r, rn, rt, peer, at, tn, tt, op, w))
UNCOVERED(MPI_Rget_accumulate,
          (const void* b, int n, MPI_Datatype t, void* r, int rn, MPI_Datatype rt, int peer,
           MPI_Aint at, int tn, MPI_Datatype tt, MPI_Op op, MPI_Win w, MPI_Request* q),
          (b, n, t, r, rn, rt, peer, at, tn, tt, op, w, q))
UNCOVERED(MPI_Fetch_and_op,
          (const void* b, void* r, MPI_Datatype t, int peer, MPI_Aint at, MPI_Op op, MPI_Win w),
          (b, r, t, peer, at, op, w))
UNCOVERED(MPI_Compare_and_swap,
          (const void* b, const void* x, void* r, MPI_Datatype t, int peer, MPI_Aint at, MPI_Win w),
          (b, x, r, t, peer, at, w))
