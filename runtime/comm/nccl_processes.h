// The row of the backend table for NCCL: how its ranks are started. Needs no CUDA to compile.
#pragma once

#include "runtime/comm/backend.h"

namespace s2t {

Probe probe_nccl();
RunResult run_nccl(const RunOptions& options, const RankBody& body);

}  // namespace s2t
