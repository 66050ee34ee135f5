// The help texts, made from the table of commands.
#pragma once

#include <ostream>

#include "analyzer/cli/command.h"

namespace s2t {

void print_help(const CommandTable& table, std::ostream& out);
void print_help(const Command& command, std::ostream& out);

}  // namespace s2t
