// What a shell would execute of a script, as far as the script says it: every command that it may
// come to, in order, with its words expanded. Both branches of an `if` are followed, loops until
// nothing changes any more, functions where they are called. Nothing is executed, our own
// environment is not read, and a script that cannot be followed is refused.
//
// Not known here: what any program or flag means.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyzer/io/shell/state.h"

namespace s2t {

struct ShellCall {
  std::vector<ShellText> words;
  bool conditional = false;  // in a branch or a loop, or behind && or ||
};

struct ShellRun {
  std::vector<ShellCall> calls;  // of programs; not of what the shell does itself
  ShellState state;              // at the end
};

// Throws ShellError.
ShellRun run_shell(const std::string& script);

}  // namespace s2t
