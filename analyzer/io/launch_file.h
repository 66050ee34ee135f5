// Reads the flags with which somebody launches a training job: a shell script, a plain list of
// flags, or a JSON object of them (`{"args": {...}, "shell_vars": {...}}`, or the flags alone); and
// files of settings that say the same, torchtitan's toml and DeepSpeed's JSON.
//
// A script is followed as a shell would (shell/run.h): flags are those of the commands that it comes
// to, filled in with the variables that it sets; what only the shell of the day knows stays as it
// is written, with its `$`. Not known here: what any flag means.
#pragma once

#include <map>
#include <set>
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
  bool gives_way = false;    // to the same flag of a launch, as torchtitan's toml does
  std::string written = {};  // what the file calls it, if not by `name`
  std::string doubt = {};    // "source env.sh (line 3) may set TP", in which its value is
  int launch = 0;            // 1, 2 ...: which launch of a script it belongs to; 0: no certain one

  const std::string& shown() const { return written.empty() ? name : written; }
  // Whether the value depends on something that the file does not set.
  bool open() const { return !why_open.empty(); }
};

// A word that stands among flags and may be flags itself.
struct LaunchUnknown {
  std::string text;    // "$EXTRA_ARGS"
  std::string where;   // "line 12"
  std::string why;     // "EXTRA_ARGS is set nowhere in the file"
  std::string behind;  // the flag before it, whose value it may be
  bool known_in_part;  // the file does set it, to several values or in a way that is not followed
};

struct Launch {
  std::vector<LaunchFlag> flags;
  std::vector<LaunchUnknown> unknown;
  std::map<std::string, std::string> variables;  // as set in the file, filled in
  std::set<std::string> starters;                // of its ranks: "srun", "torchrun"
  std::vector<std::string> left_out;  // commands that are no launch: "python convert.py (line 3)"
  std::vector<LaunchFlag> stray;      // where a command should begin
  // A file of settings, not a launch: what it does not say is as its framework has it.
  bool settings = false;
};

// Reports JSON that cannot be read, and a script that cannot be followed.
Launch read_launch(const std::string& text, Diagnostics& sink);

}  // namespace s2t
