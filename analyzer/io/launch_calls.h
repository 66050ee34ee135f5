// Which commands of a script launch the training, and so give the flags: those that a starter of
// ranks (torchrun, deepspeed, srun ...) or a training script's name tells. Other programs have flags
// of the same names (`tools/preprocess_data.py --seq-length`), which say nothing of the step.
//
// Not known here: what any flag means.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "analyzer/io/shell/run.h"

namespace s2t {

struct LaunchCommands {
  struct Call {
    ShellCall call;
    int launch = 0;  // 1, 2 ...: which launch of the script; 0 if it is part of any
  };
  struct Other {
    std::string text;  // "python tools/preprocess_data.py"
    int line;
  };
  std::vector<Call> calls;      // that give flags
  std::vector<Other> left_out;  // that have flags, but are no launch
  std::vector<Other> stray;     // that begin with a flag, in a script that has launches
};

// All commands give flags if none is known to launch anything.
LaunchCommands launching(std::vector<ShellCall> calls, const std::string& script);

// Of a job's ranks, before its script: "srun", "torchrun".
std::vector<std::string> starters_of(const ShellCall& call);
// `srun -N 2 -n 16`, `mpirun -np 16`: by their long names.
std::vector<std::pair<std::string, ShellText>> short_flags(const ShellCall& call);

}  // namespace s2t
