// Reads the flags with which somebody launches a training job: a shell script, a plain list of
// flags, or a JSON object of them (`{"args": {...}, "shell_vars": {...}}`, or the flags alone).
//
// Variables that the file itself sets are filled in (shell_text.h); what only the shell of the day
// knows stays as it is written, with its `$`. Not known here: what any flag means.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyzer/base/diagnostics.h"

namespace s2t {

struct LaunchFlag {
  std::string name;               // "--tensor-model-parallel-size"
  std::string value;              // the word behind it, variables filled in; "" if there is none
  std::string where;              // "line 12" or "/args/seq-length"
  std::vector<std::string> more;  // further words behind it, of the same command
  std::string why_open;           // "TP is set nowhere in the file"
  // In a branch or a loop, or behind && or ||; or its value was set in one, and only there.
  bool conditional = false;

  // Whether the value depends on something that the file does not set.
  bool open() const { return value.find('$') != std::string::npos; }
};

struct Launch {
  std::vector<LaunchFlag> flags;
  std::map<std::string, std::string> variables;  // as set in the file, filled in
};

// Reports JSON that cannot be read.
Launch read_launch(const std::string& text, Diagnostics& sink);

}  // namespace s2t
