// The collectives as one thread carries them out when it can see every rank's buffers.
//
// Known here: what each collective means, as plain loops over ranks. Not known here: threads,
// waiting, errors: the calls are known to agree and nobody touches the buffers meanwhile.
#pragma once

#include <span>

#include "runtime/comm/call.h"

namespace s2t {

// `calls[r]` is what rank r of the group issued. Sums run in rank order and all ranks get the same
// bits.
void execute_on_host(std::span<const Call* const> calls);

}  // namespace s2t
