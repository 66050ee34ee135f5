#include "analyzer/io/shell/text.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

constexpr int kDeepest = 64;  // brackets and quotes in each other

// Finds where what is opened is closed.
class Scan {
 public:
  explicit Scan(const ShellSource& source) : source_(source), text_(source.text) {}

  size_t item(size_t at, bool in_double) {
    const char c = text_[at], next = at + 1 < text_.size() ? text_[at + 1] : '\0';
    if (c == '\\') return std::min(at + 2, text_.size());
    if (c == '`') return until(at, '`', true);
    if (c == '\'' && !in_double) return until(at, '\'', false);
    if (c == '"') return in_double ? at + 1 : quote(at);
    if (c != '$') return at + 1;
    if (next == '(') return bracket(at + 1);
    if (next == '{') return brace(at, in_double);
    if (next == '\'' && !in_double) return until(at + 1, '\'', true);
    return at + 1;
  }

  size_t bracket(size_t at) {
    const Level level(*this, at);
    const bool arithmetic = text_.compare(at, 2, "((") == 0;
    size_t open = 0;
    for (size_t i = at; i < text_.size();) {
      if (text_[i] == '(') ++open;
      if (text_[i] == ')' && --open == 0) return i + 1;
      const bool comment = !arithmetic && text_[i] == '#' && is_blank(text_[i - 1]);
      i = comment ? std::min(text_.find('\n', i), text_.size()) : item(i, false);
    }
    unclosed(at);
  }

 private:
  struct Level {
    Level(Scan& scan, size_t at) : scan_(scan) {
      if (++scan_.depth_ > kDeepest) throw ShellError{scan.source_.lines[at], "brackets too deep"};
    }
    ~Level() { --scan_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    Scan& scan_;
  };

  [[noreturn]] void unclosed(size_t at) const {
    throw ShellError{source_.lines[at],
                     "what " + text_.substr(at, 1) + " opens here is closed nowhere"};
  }

  size_t until(size_t at, char end, bool escapes) const {
    for (size_t i = at + 1; i < text_.size(); ++i) {
      if (text_[i] == end) return i + 1;
      if (text_[i] == '\\' && escapes) ++i;
    }
    unclosed(at);
  }

  size_t quote(size_t at) {
    const Level level(*this, at);
    for (size_t i = at + 1; i < text_.size(); i = item(i, true))
      if (text_[i] == '"') return i + 1;
    unclosed(at);
  }

  size_t brace(size_t at, bool in_double) {
    const Level level(*this, at);
    for (size_t i = at + 2; i < text_.size();) {
      if (text_[i] == '}') return i + 1;
      i = text_[i] == '"' ? quote(i) : item(i, in_double);
    }
    unclosed(at);
  }

  const ShellSource& source_;
  const std::string& text_;
  int depth_ = 0;
};

std::string first(const std::vector<ShellPiece>& pieces, std::string ShellPiece::*what) {
  for (const ShellPiece& piece : pieces)
    if (!(piece.*what).empty()) return piece.*what;
  return "";
}

}  // namespace

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_shell(const std::string& program) {
  return among(base_name(program), "bash sh dash zsh ksh");
}

void ShellText::add(ShellPiece piece) {
  if (!pieces_.empty()) {
    ShellPiece& last = pieces_.back();
    if (last.line == piece.line && last.conditional == piece.conditional && last.open.empty() &&
        piece.open.empty() && last.doubt == piece.doubt && last.assumed == piece.assumed) {
      last.text += piece.text;
      return;
    }
  }
  pieces_.push_back(std::move(piece));
}

void ShellText::add(const ShellText& other) {
  for (const ShellPiece& piece : other.pieces_) add(piece);
}

std::string ShellText::plain() const {
  std::string all;
  for (const ShellPiece& piece : pieces_) all += piece.text;
  return all;
}

size_t ShellText::size() const {
  size_t letters = 0;
  for (const ShellPiece& piece : pieces_) letters += piece.text.size();
  return letters;
}

bool ShellText::conditional() const {
  return std::any_of(pieces_.begin(), pieces_.end(),
                     [](const ShellPiece& p) { return p.conditional; });
}

bool ShellText::assumed() const {
  return std::any_of(pieces_.begin(), pieces_.end(), [](const ShellPiece& p) { return p.assumed; });
}

std::string ShellText::open() const {
  return first(pieces_, &ShellPiece::open);
}

std::string ShellText::doubt() const {
  return first(pieces_, &ShellPiece::doubt);
}

ShellSource::ShellSource(std::string script) : text(std::move(script)) {
  std::erase(text, '\r');
  int line = 1;
  for (const char c : text) lines.push_back(c == '\n' ? line++ : line);
  lines.push_back(line);
}

ShellSource::ShellSource(const ShellText& of)
    : text(of.plain()), conditional(of.conditional()), doubt(of.doubt()) {
  for (const ShellPiece& piece : of.pieces())
    lines.insert(lines.end(), piece.text.size(), piece.line);
  lines.push_back(lines.empty() ? of.line() : lines.back());
}

ShellText as_written(const ShellRange& range) {
  const ShellSource& source = *range.source;
  ShellText text;
  for (size_t i = range.begin; i < range.end; ++i)
    text.add(
        {std::string(1, source.text[i]), source.lines[i], source.conditional, "", source.doubt});
  return text;
}

size_t shell_name_end(const std::string& text, size_t at) {
  if (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0) return at;
  while (at < text.size() &&
         (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_'))
    ++at;
  return at;
}

size_t assigned_name_end(const std::string& word) {
  const size_t end = shell_name_end(word, 0);
  return word.compare(end, 1, "=") == 0 || word.compare(end, 2, "+=") == 0 ? end : 0;
}

size_t behind_quoted(const ShellSource& source, size_t at, bool in_double_quotes) {
  return Scan(source).item(at, in_double_quotes);
}

size_t behind_bracket(const ShellSource& source, size_t at) {
  return Scan(source).bracket(at);
}

}  // namespace s2t
