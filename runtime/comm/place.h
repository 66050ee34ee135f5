// Who am I, if somebody started me as one of several ranks? Read from the environment.
//
// Known here: the variables by which our own launcher, mpirun, torchrun and srun number their
// processes, and where ranks started by others meet. Not known here: starting anything.
#pragma once

#include <optional>

#include "runtime/comm/control_link.h"

namespace s2t {

struct StartedAs {
  Place place;
  std::string by;          // "shape2trace", "mpirun", "torchrun", "srun"
  ControlAddress control;  // where the judge is, or, unless `judged`, where rank 0 must open it
  bool judged = false;     // our own launcher watches
};

// Nothing if this process was started as itself. Throws CommError(transport) where ranks on several
// machines have no place to meet (MASTER_ADDR, MASTER_PORT).
std::optional<StartedAs> started_as(std::chrono::milliseconds timeout);

// Whether this process was started as a rank at all.
bool is_started_rank();

constexpr const char* kControlVariable = "S2T_CONTROL";  // "host:port:token"
constexpr const char* kRankVariable = "S2T_RANK";
constexpr const char* kSizeVariable = "S2T_WORLD_SIZE";

}  // namespace s2t
