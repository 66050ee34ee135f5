// What every backend must do, as one body that a rank of any backend runs.
//
// Known here: the meaning of each collective, from its definition, in doubles small enough to be
// exact in every dtype. Not known here: which backend runs it.
#pragma once

#include <string>

#include "runtime/comm/communicator.h"

namespace s2t::conformance {

// Runs all cases; returns what was wrong, one line each, "" if nothing was.
std::string run_all(World& world);

// The same with every collective replaced by its default built on messages.
std::string run_all_by_messages(World& world);

}  // namespace s2t::conformance
