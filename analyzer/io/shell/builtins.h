// Commands that a shell executes itself, without starting a program: what they set, and that their
// words are no flags of a launch.
#pragma once

#include <vector>

#include "analyzer/io/shell/state.h"

namespace s2t {

// False if words[0] names none.
bool run_builtin(ShellState& state, const std::vector<ShellText>& words, int line);

}  // namespace s2t
