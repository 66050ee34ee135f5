// The row of the backend table for MPI: how its ranks are started. Needs no MPI to compile; whether
// there is one is found out when asked.
#pragma once

#include "runtime/comm/backend.h"

namespace s2t {

Probe probe_mpi();
RunResult run_mpi(const RunOptions& options, const RankBody& body);

}  // namespace s2t
