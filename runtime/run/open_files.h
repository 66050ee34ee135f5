// How many files a run of processes keeps open, against `ulimit -n`.
//
// Pipes and sockets of whoever starts the ranks, and of mpirun; each process opens fewer. Measured
// with Open MPI 4.1, which is the greediest: about 28, and 4 for each rank; some more are allowed
// for. Not known here: how the ranks are started.
#pragma once

#include <cstdint>

namespace s2t {

uint64_t open_files_needed(int64_t ranks);

// The most that this process may open: raised to `wanted`, if the user may.
uint64_t allow_open_files(uint64_t wanted);

// Throws UserError (slug too-few-files) if `allowed` is less than what `ranks` need.
void require_open_files(int64_t ranks, uint64_t allowed);

}  // namespace s2t
