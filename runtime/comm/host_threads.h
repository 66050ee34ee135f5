// The embedded backend: every rank a thread of this process, every message a copy.
//
// Known here: strict rendezvous. All members of a group must issue the same operation with the same
// count and dtype, in the same order; a send waits for its receiver. Anything else is found out at
// once and named, as is the moment when no rank can go on. Not known here: anything outside this
// process, and real time: nothing overlaps, so nothing measured here is a speed.
#pragma once

#include "runtime/comm/backend.h"

namespace s2t {

Probe probe_host_threads();

// Joins every rank before it returns; a rank that computes for long sees the end of the others at
// its next call (or `check_alive`). `failures[0]` is the cause.
RunResult run_host_threads(const RunOptions& options, const RankBody& body);

}  // namespace s2t
