// The help texts, made from the table of commands.
#pragma once

#include <ostream>
#include <string>

#include "analyzer/cli/command.h"

namespace s2t {

// The first line of a command's examples.
inline std::string first_example(const Command& command) {
  return std::string(command.example.substr(0, command.example.find('\n')));
}

void print_help(const CommandTable& table, std::ostream& out);
void print_help(const Command& command, std::ostream& out);

}  // namespace s2t
