// What variables are at one place of a script. A value may be one of several, if branches differ,
// or be set in some of them only.
//
// Not known here: how a script comes there (shell/run.h).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/io/shell/text.h"

namespace s2t {

struct ShellValue {
  std::vector<ShellText> words;  // elements of an array; else one
  bool array = false;
  int line = 1;
  bool conditional = false;  // or not set at all
  bool exported = false, integer = false, readonly = false;
};

// The words up to `place` are as many as they seem.
bool counted(const ShellValue& value, size_t place);

class ShellState {
 public:
  // Nothing that follows is executed.
  bool dead = false;

  // The values that it may have; nullptr if it is not set.
  const std::vector<ShellValue>* find(const std::string& name) const;
  void set(const std::string& name, ShellValue value);
  // "$@"
  void set_arguments(std::vector<ShellText> words, int line);
  void append(const std::string& name, ShellValue more);
  void unset(const std::string& name) { values_.erase(name); }
  bool is_readonly(const std::string& name) const;
  // Where no command comes to.
  static ShellState nowhere() {
    ShellState state;
    state.dead = true;
    return state;
  }
  void clear() { values_.clear(); }
  void put(const std::string& name, std::vector<ShellValue> values) {
    values_[name] = std::move(values);
  }
  // From here on only the shell of the day knows it.
  void open(const std::string& name, std::string why, int line);
  void export_all() { exports_ = true; }
  void mark(const std::string& name, bool ShellValue::*what, bool on = true);
  // "source env.sh (line 3)" may have set any of them.
  void doubt(const std::string& who);
  // Either this or the other.
  void join(const ShellState& other);
  // What differs from `other` was changed by a loop.
  void widen(const ShellState& other, int line);
  // What a program sees that is started here.
  ShellState environment() const;

  // How much there is to copy: values and their pieces.
  size_t weight() const;

  bool operator==(const ShellState& other) const;
  const std::map<std::string, std::vector<ShellValue>>& values() const { return values_; }

 private:
  std::map<std::string, std::vector<ShellValue>> values_;
  bool exports_ = false;
};

// Why a variable has no value, or several: "TP is 8 (line 2) or 4 (line 3)".
std::string why_open(const ShellState& state, const std::string& name);

}  // namespace s2t
