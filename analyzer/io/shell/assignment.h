// NAME=value and its like, and the commands that declare variables.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/io/shell/expansion.h"
#include "analyzer/io/shell/state.h"
#include "analyzer/io/shell/syntax.h"

namespace s2t {

struct ShellAssignment {
  std::string name;
  ShellValue value;
  bool more = false;     // NAME+=value
  bool element = false;  // NAME[i]=value
  int64_t index = -1;    // i, if it is known
};

// nullopt if the word is none.
std::optional<ShellAssignment> read_assignment(const ShellWord& word, ShellExpansion expansion);
void assign(ShellState& state, const ShellAssignment& assignment);

// env TP=4 -u PP, mpirun -x TP=4: what the words before words[end] change for what is started there.
void assign_environment(const std::vector<ShellText>& words, size_t end, ShellState& state);

// What variables were outside a function, where it has its own.
using ShellLocals = std::map<std::string, std::vector<ShellValue>>;

// export, declare, local, readonly, typeset
bool is_declaration(const std::string& command);
// `locals` is null outside a function.
void declare(const std::vector<ShellWord>& words, ShellState& state, ShellLocals* locals,
             ShellExpansion expansion);

}  // namespace s2t
