// What words of a shell script become where they are read: quotes vanish, `$NAME`, `${NAME:-4}` and
// `$((A * B))` are filled in, and what is not in quotes falls apart at blanks. What is not known
// here stays as it is written, open.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analyzer/io/shell/state.h"
#include "analyzer/io/shell/syntax.h"

namespace s2t {

class ShellExpansion {
 public:
  // `run` is told of the commands in $(...).
  using Run = std::function<void(const ShellRange& inside)>;
  ShellExpansion(ShellState& state, Run run) : state_(state), run_(std::move(run)) {}

  // None, one or several.
  std::vector<ShellText> words(const ShellWord& word);
  // As in an assignment, of what stands behind `begin`: one text.
  ShellText value(const ShellRange& range);
  // As between double quotes.
  ShellText quoted(const ShellRange& range);

 private:
  enum class Mode { split, whole, quotes };
  struct Fields;
  void expand(const ShellRange& range, Mode mode, Fields& out);
  size_t expand_quote(const ShellRange& range, size_t at, Fields& out);
  size_t expand_dollar(const ShellRange& range, size_t at, bool quoted, Fields& out);
  void variable(const std::string& name, const ShellRange& written, bool quoted, Fields& out);
  void braced(const ShellRange& written, bool quoted, Fields& out);
  bool length(const std::string& of, const ShellRange& written, bool quoted, Fields& out);
  bool element(const std::string& name, const std::string& rest, const ShellRange& written,
               bool quoted, Fields& out);
  bool several(const std::string& name, size_t at, const ShellRange& written, bool quoted,
               Fields& out);
  void otherwise(const std::string& name, size_t at, const ShellRange& written, bool quoted,
                 Fields& out);
  void arithmetic(const ShellRange& written, bool quoted, Fields& out);
  void all_elements(const ShellValue& value, bool apart, bool quoted, Fields& out);
  void leave_open(const ShellRange& written, std::string why, bool quoted, Fields& out);
  void put(const ShellText& text, bool quoted, Fields& out);

  ShellState& state_;
  Run run_;
  int depth_ = 0;
};

// `text` as between double quotes, with these variables; as written if it cannot be expanded.
ShellText expand_text(const std::string& text, ShellState& state);

}  // namespace s2t
