// Takes a command line apart by the table of commands, and says what is wrong with it.
#pragma once

#include <string>
#include <vector>

#include "analyzer/cli/command.h"

namespace s2t {

struct Invocation {
  const Command* command = nullptr;  // null: help of the whole program, or its version
  bool help = false;
  bool version = false;
  Arguments arguments;
  std::string output;  // "": standard output
};

// `words`: without the program's name. Throws UserError; slugs unknown-command, unknown-option,
// unknown-format, missing-operand, extra-operand, bad-option.
Invocation parse_command_line(const CommandTable& table, const std::vector<std::string>& words);

// "never", "always", and with "auto": on a terminal, unless NO_COLOR says no.
bool wants_color(const std::string& when, bool to_file);

}  // namespace s2t
