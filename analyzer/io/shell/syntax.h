// The grammar of a shell script: lists, pipelines and compound commands, as far as launch scripts
// have them. What is not known here is refused with its line.
//
// Not known here: what any word expands to, or does (shell/expansion.h, shell/run.h).
#pragma once

#include <memory>
#include <vector>

#include "analyzer/io/shell/text.h"

namespace s2t {

struct ShellWord : ShellRange {
  bool array = false;                 // NAME=(...) or NAME+=(...): the range is up to the bracket
  std::vector<ShellWord> elements{};  // of an array
};

// Here-document.
struct ShellDocument : ShellRange {
  bool verbatim = false;  // its end is in quotes: nothing is expanded
};

struct ShellItem;
using ShellList = std::vector<ShellItem>;

struct ShellCommand {
  enum class Kind {
    simple,      // words
    group,       // { parts[0]; }
    subshell,    // ( parts[0] )
    branches,    // if: condition, body, condition, body, ..., the last body if `exhaustive`
    cases,       // words[0]; the bodies
    times,       // for words[0] in words[1]...: parts[0]
    loop,        // while parts[0]; do parts[1]
    arithmetic,  // ((words[0])), or for ((words[0])): parts[0]
    question,    // [[ words ]], with && and the like among them
    function     // words[0] { parts[0] }
  };
  Kind kind = Kind::simple;
  int line = 1;
  std::vector<ShellWord> words;
  std::vector<ShellList> parts;
  std::vector<std::vector<ShellWord>> patterns;  // of the cases
  bool until = false;                            // a loop that ends where others go on
  bool chosen = false;                           // select: the user says how often
  bool given = false;                            // for NAME, without "in": over "$@"
  bool exhaustive = false;  // one of the branches is taken: it has an else, or a case *)
  bool to_file = false;     // its output is redirected
  std::vector<ShellWord> redirections;
  std::vector<std::shared_ptr<ShellDocument>> documents;
};

// Commands of one pipeline; more than one run in subshells.
struct ShellPipeline {
  std::vector<ShellCommand> commands;
  bool negated = false;
  enum class After { any, success, failure } after = After::any;  // of the one before: ; && ||
};

struct ShellItem {
  std::vector<ShellPipeline> pipelines;
  bool background = false;
};

// Throws ShellError. The source must outlive what is read.
ShellList parse_shell(const ShellSource& source);

}  // namespace s2t
