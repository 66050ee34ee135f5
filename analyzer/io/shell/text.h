// Text of a shell script that remembers where each letter was written, and what it is worth: text
// may be *open* (only the shell of the day knows it, and why), conditional (written in a branch or
// a loop) or in doubt (something that is not read may have changed it).
#pragma once

#include <string>
#include <vector>

namespace s2t {

struct ShellPiece {
  std::string text;  // as written if it is open: "$NODES"
  int line = 1;
  bool conditional = false;
  std::string open = {};   // "NODES is set nowhere in the file"
  std::string doubt = {};  // "source env.sh (line 3) may set TP"
  bool splits = false;     // open and not in quotes: none, one or several words
  bool assumed = false;    // "${X:-}": empty if the run does not set X
};

class ShellText {
 public:
  ShellText() = default;
  explicit ShellText(ShellPiece piece) { add(std::move(piece)); }

  void add(ShellPiece piece);
  void add(const ShellText& other);

  const std::vector<ShellPiece>& pieces() const { return pieces_; }
  std::vector<ShellPiece>& pieces() { return pieces_; }
  std::string plain() const;
  size_t size() const;
  int line() const { return pieces_.empty() ? 1 : pieces_.front().line; }
  bool conditional() const;
  bool assumed() const;
  std::string open() const;   // of the first piece that is
  std::string doubt() const;  // likewise
  bool operator==(const ShellText& other) const { return plain() == other.plain(); }

 private:
  std::vector<ShellPiece> pieces_;
};

// What is read: a script, or text that a script hands to another shell.
struct ShellSource {
  explicit ShellSource(std::string script);
  explicit ShellSource(const ShellText& text);

  std::string text;
  std::vector<int> lines;  // of every letter, and of the end
  bool conditional = false;
  std::string doubt;
};

// Part of a source, as written: quotes and all.
struct ShellRange {
  const ShellSource* source = nullptr;
  size_t begin = 0, end = 0;

  std::string text() const { return source->text.substr(begin, end - begin); }
  int line() const { return source->lines[begin]; }
};

// Nothing of it filled in.
ShellText as_written(const ShellRange& range);

// A script that cannot be followed.
struct ShellError {
  int line;
  std::string what;
};

bool is_blank(char c);  // what words end at
std::string base_name(const std::string& path);
bool is_shell(const std::string& program);  // it reads scripts

// NAME=value, NAME+=value: where the name ends; 0 if `word` is none.
size_t assigned_name_end(const std::string& word);
size_t shell_name_end(const std::string& text, size_t at);

// Behind the escape, quote, `$...` or backtick that begins at text[at]; behind any other letter.
// Throws ShellError if it is not closed.
size_t behind_quoted(const ShellSource& source, size_t at, bool in_double_quotes = false);
// Behind the bracket that closes the `(` at text[at].
size_t behind_bracket(const ShellSource& source, size_t at);

}  // namespace s2t
