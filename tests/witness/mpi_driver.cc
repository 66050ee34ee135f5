// A fixed sequence of MPI calls on four ranks (mpi_test.cc lists what the witness must see). With
// an argument it also makes a call that the witness does not cover; "crash" ends rank 1 by a
// signal.
#include <mpi.h>

#include <csignal>
#include <cstring>
#include <vector>

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  const bool gather = count > 1 && std::strcmp(arguments[1], "gather") == 0;
  const bool crash = count > 1 && std::strcmp(arguments[1], "crash") == 0;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);

  MPI_Comm tp;  // pairs, in reversed order
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, -rank, &tp);
  MPI_Comm_set_name(tp, rank < 2 ? "tp0" : "tp1");
  MPI_Datatype bf16;
  MPI_Type_contiguous(2, MPI_BYTE, &bf16);
  MPI_Type_commit(&bf16);
  MPI_Type_set_name(bf16, "bfloat16");

  std::vector<float> x(64, 1), y(256);
  std::vector<char> h(1024);
  MPI_Request request;
  MPI_Allreduce(x.data(), y.data(), 64, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (x[0] * 4 != y[0]) MPI_Abort(MPI_COMM_WORLD, 2);  // the call must still do its work
  if (crash && rank == 1) std::raise(SIGKILL);
  MPI_Iallreduce(x.data(), y.data(), 8, MPI_FLOAT, MPI_MAX, tp, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Allgather(h.data(), 8, bf16, h.data() + 512, 8, bf16, tp);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, y.data(), 3, MPI_FLOAT, MPI_COMM_WORLD);
  const int counts[] = {1, 2, 3, 4}, offsets[] = {0, 1, 3, 6};
  MPI_Allgatherv(x.data(), counts[rank], MPI_FLOAT, y.data(), counts, offsets, MPI_FLOAT,
                 MPI_COMM_WORLD);
  MPI_Reduce_scatter_block(x.data(), y.data(), 5, MPI_FLOAT, MPI_SUM, tp);
  MPI_Reduce_scatter(x.data(), y.data(), counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Alltoall(x.data(), 2, MPI_FLOAT, y.data(), 2, MPI_FLOAT, MPI_COMM_WORLD);
  // Rank r sends d + 1 elements to rank d, and so receives r + 1 from each.
  const int mine[] = {rank + 1, rank + 1, rank + 1, rank + 1};
  const int mine_offsets[] = {0, 4, 8, 12};
  MPI_Alltoallv(x.data(), counts, offsets, MPI_FLOAT, y.data(), mine, mine_offsets, MPI_FLOAT,
                MPI_COMM_WORLD);
  MPI_Bcast(x.data(), 6, MPI_FLOAT, 2, MPI_COMM_WORLD);
  MPI_Reduce(x.data(), y.data(), 7, MPI_FLOAT, MPI_SUM, 1, MPI_COMM_WORLD);
  MPI_Sendrecv(x.data(), 9, MPI_FLOAT, (rank + 1) % 4, 0, y.data(), 9, MPI_FLOAT, (rank + 3) % 4, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 0) MPI_Send(x.data(), 10, MPI_FLOAT, 3, 1, MPI_COMM_WORLD);
  if (rank == 3) MPI_Recv(y.data(), 10, MPI_FLOAT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 0) MPI_Isend(x.data(), 11, MPI_FLOAT, 3, 1, MPI_COMM_WORLD, &request);
  if (rank == 3) MPI_Irecv(y.data(), 11, MPI_FLOAT, 0, 1, MPI_COMM_WORLD, &request);
  if (rank == 0 || rank == 3) MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Barrier(tp);
  if (gather) MPI_Gather(x.data(), 1, MPI_FLOAT, y.data(), 1, MPI_FLOAT, 0, MPI_COMM_WORLD);
  MPI_Type_free(&bf16);
  MPI_Comm_free(&tp);
  MPI_Finalize();
  return 0;
}
