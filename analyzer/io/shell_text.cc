#include "analyzer/io/shell_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <optional>
#include <regex>
#include <utility>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

constexpr int kDeepest = 16;              // variables that name variables
constexpr size_t kMostLetters = 1 << 16;  // of one text, with all that it names
constexpr size_t kMostDefaults = 4096;    // letters of a word that may set variables
constexpr size_t kMostValues = 16;        // that one variable may have
constexpr int64_t kLargest = int64_t{1} << 40;

bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

size_t name_end(const std::string& text, size_t at) {
  while (at < text.size() && in_name(text[at])) ++at;
  return at;
}

// Where the bracket that text[at] opens is closed; npos if nowhere.
size_t closing(const std::string& text, size_t at) {
  std::string open;
  for (; at < text.size(); ++at) {
    if (text[at] == '{') open += '}';
    if (text[at] == '(') open += ')';
    if (!open.empty() && text[at] == open.back()) open.pop_back();
    if (open.empty()) return at;
  }
  return std::string::npos;
}

// "8*(N+1)" of whole numbers and names, for which `value_of` gives a number.
class Arithmetic {
 public:
  using ValueOf = std::function<std::string(const std::string& name)>;
  Arithmetic(std::string_view text, ValueOf value_of)
      : text_(text), value_of_(std::move(value_of)) {}

  std::optional<int64_t> value() {
    const std::optional<int64_t> n = sum();
    return at_ == text_.size() ? n : std::nullopt;
  }

 private:
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  static std::optional<int64_t> limited(std::optional<int64_t> n) {
    return n && std::abs(*n) <= kLargest ? n : std::nullopt;
  }

  std::optional<int64_t> sum() {
    std::optional<int64_t> total = product();
    while (total && at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) {
      const bool plus = text_[at_++] == '+';
      const std::optional<int64_t> next = product();
      if (!next) return std::nullopt;
      total = limited(plus ? *total + *next : *total - *next);
    }
    return total;
  }

  std::optional<int64_t> product() {
    std::optional<int64_t> total = factor();
    while (total && at_ < text_.size() && is_one_of(text_.substr(at_, 1), {"*", "/", "%"})) {
      const char op = text_[at_++];
      const std::optional<int64_t> next = factor();
      if (!next || (op != '*' && *next == 0)) return std::nullopt;
      if (op == '*' && *next != 0 && std::abs(*total) > kLargest / std::abs(*next))
        return std::nullopt;
      total = op == '*' ? *total * *next : op == '/' ? *total / *next : *total % *next;
    }
    return total;
  }

  std::optional<int64_t> factor() {
    if (++depth_ > 64) return std::nullopt;
    if (take('-')) {
      const std::optional<int64_t> n = factor();
      return n ? std::optional(-*n) : std::nullopt;
    }
    if (take('(')) {
      const std::optional<int64_t> inner = sum();
      return take(')') ? inner : std::nullopt;
    }
    const size_t start = at_;
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    return number(std::string(text_.substr(start, at_ - start)));
  }

  std::optional<int64_t> number(std::string word) const {
    word = value_of_(word);
    int64_t n = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    const bool whole = error == std::errc{} && end == word.data() + word.size();
    return whole ? limited(n) : std::nullopt;
  }

  std::string_view text_;
  ValueOf value_of_;
  size_t at_ = 0;
  int depth_ = 0;
};

// Takes a script apart, letter by letter.
class Words {
 public:
  explicit Words(const std::string& text) : text_(text) {}

  std::vector<ShellWord> read() {
    for (at_ = 0; at_ < text_.size(); ++at_) letter(text_[at_]);
    end_word();
    return std::move(words_);
  }

 private:
  char next() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\n'; }

  // Whether a quote is closed on its line; one that is not is a mark in a text.
  bool closes(char quote) const {
    const size_t end = text_.find_first_of(std::string{quote, '\n'}, at_ + 1);
    return end != std::string::npos && text_[end] == quote;
  }

  void quote(char c) {
    if (c == quote_)
      quote_ = '\0';
    else if (quote_ == '\0' && closes(c))
      quote_ = c;
    // ARGS="--flag ...": the flags are words of their own.
    if (word_.ends_with("=") && (next() == '-' || is_space(next()) || next() == '\\')) end_word();
  }

  // cat <<EOF: up to the line EOF.
  void begin_document() {
    at_ = std::min(text_.find_first_not_of("<- \t\"'\\", at_), text_.size());
    const size_t end = name_end(text_, at_);
    const bool shift = end > at_ && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0;
    document_ = shift ? "" : text_.substr(at_, end - at_);
    at_ = end - 1;
  }

  void add(char c) {
    if (word_.empty()) quoted_ = quote_ != '\0' || in_document_;
    word_ += c;
  }

  void letter(char c) {
    if (c == '\n') return end_line();
    if (text_.compare(at_, 2, "<<") == 0 && text_.compare(at_, 3, "<<<") != 0 && quote_ == '\0' &&
        open_.empty() && !in_document_) {
      end_word();
      return begin_document();
    }
    if (c == '$' && (next() == '{' || next() == '(')) {
      add(c);
      word_ += next();
      open_ += next() == '{' ? '}' : ')';
      ++at_;
    } else if (!open_.empty()) {
      inside(c);
    } else if (c == '#' && word_.empty() && quote_ == '\0') {
      while (next() != '\n') ++at_;
    } else if (c == '"' || c == '\'') {
      quote(c);
    } else if (c == '\\' && next() == '\n') {
      end_word();
      ++line_;
      ++at_;
    } else if (is_space(c) || c == '\\') {
      end_word();
    } else if (std::string_view("`();|&").find(c) != std::string_view::npos) {
      if (c == '(' && word_.empty() && begins_ && quote_ == '\0') ++subshells_;
      end_word();
      if (c == ')' && subshells_ > 0 && quote_ == '\0') --subshells_;
      begins_ = head_ = true;
      chained_ = (c == '&' || c == '|') && next() == c;
      if (chained_) ++at_;
    } else {
      add(c);
    }
  }

  void inside(char c) {
    if (c == '(') open_ += ')';
    if (c == open_.back()) open_.pop_back();
    if (!is_space(c) && c != '"' && c != '\'') word_ += c;
  }

  void end_line() {
    open_.clear();  // what was never closed
    end_word();
    chained_ = chained_ && begins_;  // a line that ends in && goes on
    begins_ = head_ = true;
    quote_ = '\0';
    ++line_;
    end_document();
  }

  void end_document() {
    if (!document_.empty()) in_document_ = true;
    const size_t start = text_.find_first_not_of(" \t", at_ + 1);
    if (!in_document_ || start == std::string::npos) return;
    if (text_.compare(start, document_.size(), document_) != 0) return;
    const size_t end = start + document_.size();
    if (end < text_.size() && text_[end] != '\n' && text_[end] != '\r') return;
    at_ = end - 1;
    document_.clear();
    in_document_ = false;
  }

  // NAME=value NAME=value, or export NAME=value. Before a command it holds for that alone.
  bool assigns() {
    const bool declares = is_one_of(word_, {"export", "declare", "local", "readonly", "typeset"});
    if (begins_) {
      command_ = words_.size();
      declared_ = declares;
    }
    if (!head_ || quoted_) return false;
    if (!assigned_name(word_).empty()) return subshells_ == 0;
    head_ = declared_ || is_one_of(word_, {"then", "else", "do", "{"});
    for (size_t i = command_; !head_ && i < words_.size(); ++i) words_[i].assigns = false;
    return false;
  }

  void end_word() {
    if (word_.empty()) return;
    const bool holds = assigns();
    if (begins_ && is_one_of(word_, {"if", "case", "for", "while", "until", "select"})) ++nested_;
    if (begins_ && is_one_of(word_, {"fi", "esac", "done"}) && nested_ > 0) --nested_;
    words_.push_back({word_, line_, begins_, nested_ > 0 || chained_, holds, subshells_ > 1});
    begins_ = begins_ && is_one_of(word_, {"then", "else", "do", "{"});
    word_.clear();
  }

  const std::string& text_;
  size_t at_ = 0;
  std::vector<ShellWord> words_;
  std::string word_, open_;  // brackets behind a `$` that are to be closed
  std::string document_;     // the line that ends a here-document
  char quote_ = '\0';        // that is open
  size_t command_ = 0;       // its first word
  int line_ = 1, nested_ = 0, subshells_ = 0;
  bool begins_ = true, chained_ = false;
  bool head_ = true, declared_ = false;  // only assignments so far; behind export
  bool quoted_ = false, in_document_ = false;
};

}  // namespace

std::vector<ShellWord> shell_words(const std::string& text) {
  return Words(text).read();
}

std::string assigned_name(const std::string& word) {
  const size_t end = name_end(word, 0);
  const bool assigned = word.compare(end, 1, "=") == 0 || word.compare(end, 2, "+=") == 0;
  return end > 0 && assigned ? word.substr(0, end) : "";
}

std::vector<std::string> changed_names(const std::string& arithmetic) {
  if (arithmetic.size() > kMostDefaults) return {};
  static const std::regex kName(
      R"((\+\+|--)?\s*([A-Za-z_]\w*)\s*(\+\+|--|(?:<<|>>|[-+*/%&|^])?=(?!=))?)");
  std::vector<std::string> names;
  for (std::sregex_iterator it(arithmetic.begin(), arithmetic.end(), kName), end; it != end; ++it)
    if ((*it)[1].matched || (*it)[3].matched) names.push_back((*it)[2]);
  return names;
}

void ShellVariables::assign(const std::string& name, const std::string& value, int line,
                            bool conditional) {
  std::vector<Assigned>& all = values_[name];
  if (!conditional) all.clear();
  const std::string kept = value.size() < kMostLetters ? value : "$" + name;  // too long to be used
  const bool known =
      std::any_of(all.begin(), all.end(), [&](const Assigned& a) { return a.value == kept; });
  if (!known && all.size() < kMostValues) all.push_back({kept, line, conditional});
}

void ShellVariables::append(const std::string& name, const std::string& value, int line,
                            bool conditional) {
  if (value.empty()) return;
  const std::string* old = find(name);
  assign(name, (old ? *old : "") + value, line, conditional);
}

void ShellVariables::assign_defaults(const std::string& text, int line) {
  if (text.size() > kMostDefaults) return;
  for (size_t at = text.find("${"); at != text.npos; at = text.find("${", at + 2)) {
    const size_t name = at + 2, end = name_end(text, name), close = closing(text, at + 1);
    const size_t sign = text.compare(end, 1, ":") == 0 ? end + 1 : end;
    if (close == text.npos || sign >= close || text[sign] != '=' || end == name) continue;
    const std::string variable = text.substr(name, end - name);
    if (!values_.contains(variable))
      assign(variable, expand(text.substr(sign + 1, close - sign - 1)), line, false);
  }
}

const std::string* ShellVariables::find(const std::string& name) const {
  const auto it = values_.find(name);
  return it == values_.end() || it->second.size() != 1 ? nullptr : &it->second.front().value;
}

bool ShellVariables::conditional(const std::string& text) const {
  for (size_t at = text.find('$'); at != text.npos; at = text.find('$', at + 1)) {
    const size_t name = text.find_first_not_of("${(", at);
    if (name == text.npos) return false;
    const auto it = values_.find(text.substr(name, name_end(text, name) - name));
    if (it != values_.end() && it->second.size() == 1 && it->second.front().conditional)
      return true;
  }
  return false;
}

std::map<std::string, std::string> ShellVariables::all() const {
  std::map<std::string, std::string> all;
  for (const auto& [name, values] : values_)
    if (values.size() == 1) all[name] = expand(values.front().value);
  return all;
}

// `inside` of ${...}.
std::string ShellVariables::braced(const std::string& inside, const std::string& as_written,
                                   Limit limit) const {
  const size_t end = name_end(inside, 0);
  const std::string name = inside.substr(0, end);
  std::string rest = inside.substr(end);
  const std::string* set = find(name);
  if (rest.empty()) return set ? expand(*set, limit.deeper()) : as_written;
  const bool or_empty = rest[0] == ':';
  if (or_empty) rest.erase(0, 1);
  if (rest.empty() || std::string_view("-=?+").find(rest[0]) == std::string_view::npos)
    return as_written;
  const bool several = values_.contains(name) && !set;
  const bool there = set && !(or_empty && set->empty());
  if (several) return as_written;
  if (rest[0] == '+') return there ? expand(rest.substr(1), limit.deeper()) : "";
  if (there) return expand(*set, limit.deeper());
  return rest[0] == '?' ? as_written : expand(rest.substr(1), limit.deeper());
}

// What stands behind the `$` at text[at]; moves `at` behind it. As written if nobody set it.
std::string ShellVariables::expand_one(const std::string& text, size_t& at, Limit limit) const {
  const size_t start = at;
  const char next = at + 1 < text.size() ? text[at + 1] : '\0';
  if (next != '{' && next != '(') {
    at = name_end(text, at + 1);
    const std::string* set = find(text.substr(start + 1, at - start - 1));
    return set ? expand(*set, limit.deeper()) : text.substr(start, at - start);
  }
  const size_t end = closing(text, at + 1);
  if (end == std::string::npos) return text.substr(std::exchange(at, text.size()));
  at = end + 1;
  const std::string as_written = text.substr(start, at - start);
  if (next == '{') return braced(text.substr(start + 2, end - start - 2), as_written, limit);
  if (!as_written.starts_with("$((") || !as_written.ends_with("))")) return as_written;
  const std::string inside = expand(as_written.substr(3, as_written.size() - 5), limit.deeper());
  const auto value_of = [&](const std::string& name) {
    const std::string* set = find(name);
    return set ? expand(*set, limit.deeper()) : name;
  };
  const std::optional<int64_t> value = Arithmetic(inside, value_of).value();
  return value ? std::to_string(*value) : as_written;
}

std::string ShellVariables::expand(const std::string& text, Limit limit) const {
  if (limit.depth == 0 || text.size() > *limit.letters) return text;
  *limit.letters -= text.size();
  std::string out;
  for (size_t at = 0; at < text.size();)
    if (text[at] == '$')
      out += expand_one(text, at, limit);
    else
      out += text[at++];
  return out;
}

std::string ShellVariables::expand(const std::string& text) const {
  size_t letters = kMostLetters;
  return expand(text, {kDeepest, &letters});
}

std::string ShellVariables::why_open(const std::string& text) const {
  const size_t dollar = text.find('$'), at = text.find_first_not_of("${(", dollar);
  const std::string name = at == std::string::npos ? "" : text.substr(at, name_end(text, at) - at);
  const bool arithmetic = text.compare(dollar, 3, "$((") == 0;
  const bool number = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
  if (arithmetic && (name.empty() || number))
    return s2t::quoted(text.substr(0, 80)) + " cannot be computed here";
  if (number) return fmt::format("${} is given to the script when it runs", name);
  const bool command = text.compare(dollar, 2, "$(") == 0 && !arithmetic;
  if (name.empty() || command)
    return s2t::quoted(text.substr(0, 80)) + " is known to the shell alone";
  const auto it = values_.find(name);
  if (it == values_.end()) return fmt::format("{} is set nowhere in the file", name);
  if (it->second.size() == 1) return s2t::quoted(text.substr(0, 80)) + " cannot be computed here";
  std::vector<std::string> each;
  for (const Assigned& a : it->second) each.push_back(fmt::format("{} (line {})", a.value, a.line));
  return fmt::format("{} is {}", name, join(each, " or "));
}

}  // namespace s2t
