// The little of a shell that launch scripts need: words, `${NAME:-default}`, `$((A*B))`, and what a
// variable is where a script reads it. Nothing is executed, and our own environment is not read:
// what only the shell of the day knows stays as it is written, with its `$`.
//
// Not known here: flags.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace s2t {

struct ShellWord {
  std::string text;
  int line = 1;
  bool begins = false;       // a command or a line: not what goes on with the word before
  bool conditional = false;  // in a branch or a loop, or behind && or ||
  // NAME=value that holds from here on: not in quotes, a subshell or a here-document, and not for
  // one command alone.
  bool assigns = false;
  bool arithmetic = false;  // in ((...))
};

// Quotes vanish; brackets, `;`, `|` and `&` end a word. Flags are words in arrays and in quotes too.
std::vector<ShellWord> shell_words(const std::string& text);

class ShellVariables {
 public:
  // What a script says in passing: a value that may or may not be assigned is one of several.
  void assign(const std::string& name, const std::string& value, int line, bool conditional);
  void append(const std::string& name, const std::string& value, int line, bool conditional);
  void unset(const std::string& name) { values_.erase(name); }
  // ${NAME:=default} sets what is not set.
  void assign_defaults(const std::string& text, int line);
  // The value if there is one; nullptr if none, or several.
  const std::string* find(const std::string& name) const;
  // Whether text names a variable that has a value only if a branch was taken.
  bool conditional(const std::string& text) const;
  // Text that grows beyond all measure, or has no end, stays as it is written.
  std::string expand(const std::string& text) const;
  // Of a text that still has a `$`: "TP is set nowhere in the file", "TP is 8 (line 3) or 4 (line 5)".
  std::string why_open(const std::string& text) const;
  // Those with one value.
  std::map<std::string, std::string> all() const;

 private:
  struct Assigned {
    std::string value;
    int line;
    bool conditional;
  };
  // How deep variables name variables, and how many letters may still be read.
  struct Limit {
    int depth;
    size_t* letters;
    Limit deeper() const { return {depth - 1, letters}; }
  };
  std::string expand(const std::string& text, Limit limit) const;
  std::string expand_one(const std::string& text, size_t& at, Limit limit) const;
  std::string braced(const std::string& inside, const std::string& as_written, Limit limit) const;

  std::map<std::string, std::vector<Assigned>> values_;
};

// NAME=value; "" if `word` is none.
std::string assigned_name(const std::string& word);

// "TP *= 2, ++i" -> TP, i: what arithmetic sets.
std::vector<std::string> changed_names(const std::string& arithmetic);

}  // namespace s2t
