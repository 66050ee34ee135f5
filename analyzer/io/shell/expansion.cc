#include "analyzer/io/shell/expansion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <regex>
#include <utility>

#include "analyzer/base/text.h"
#include "analyzer/io/shell/sum.h"

namespace s2t {
namespace {

constexpr int kDeepest = 16;              // texts in texts
constexpr size_t kMostLetters = 1 << 17;  // of one word

bool is_digits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

std::string cut(const ShellRange& written) {
  return s2t::quoted(written.text().substr(0, 80));
}

// "$@", "${A[@]/x/y}", "${!NAME}": even in quotes.
bool may_be_several(const std::string& written) {
  return written.find('@') != std::string::npos || written.starts_with("${!");
}

// ":1", ": 1:2": the elements from the first number on, at most as many as the second says.
struct Slice {
  size_t from = 0, most = std::string::npos;
};

std::optional<Slice> slice_of(const std::string& text) {
  static const std::regex kSlice(R"(:\s*(\d{1,6})\s*(?::\s*(\d{1,6})\s*)?)");
  std::smatch m;
  if (!std::regex_match(text, m, kSlice)) return std::nullopt;
  Slice slice{std::stoul(m[1])};
  if (m[2].matched) slice.most = std::stoul(m[2]);
  return slice;
}

// A value whose letters are one word or several, as the shell of the day has IFS.
bool is_cut_otherwise(const ShellState& state) {
  const auto* ifs = state.find("IFS");
  return ifs && !(ifs->size() == 1 && !ifs->front().words.empty() &&
                  ifs->front().words[0].plain() == " \t\n");
}

}  // namespace

// Words that are ready, and the one that is being put together.
struct ShellExpansion::Fields {
  std::vector<ShellText> ready;
  ShellText now;
  bool present = false;  // an empty word in quotes is one
  bool splits = false;
  size_t letters = 0;

  void add(ShellPiece piece) {
    letters += piece.text.size();
    if (letters > kMostLetters)
      throw ShellError{piece.line, "a text that grows beyond all measure"};
    present = true;
    now.add(std::move(piece));
  }
  // Nothing, unless the run sets what is asked for.
  void assume(int line) { now.add({.text = "", .line = line, .assumed = true}); }
  void end() {
    if (present) ready.push_back(std::exchange(now, {}));
    present = false;
  }
};

std::vector<ShellText> ShellExpansion::words(const ShellWord& word) {
  Fields out;
  out.splits = true;
  expand(word, Mode::split, out);
  out.end();
  return std::move(out.ready);
}

ShellText ShellExpansion::value(const ShellRange& range) {
  Fields out;
  expand(range, Mode::whole, out);
  return std::move(out.now);
}

ShellText ShellExpansion::quoted(const ShellRange& range) {
  Fields out;
  expand(range, Mode::quotes, out);
  return std::move(out.now);
}

void ShellExpansion::expand(const ShellRange& range, Mode mode, Fields& out) {
  if (++depth_ > kDeepest) throw ShellError{range.line(), "a text too deep in others"};
  const std::string& text = range.source->text;
  const bool quotes = mode == Mode::quotes;
  for (size_t at = range.begin; at < range.end;) {
    const char c = text[at], next = at + 1 < range.end ? text[at + 1] : '\0';
    const auto take = [&](size_t letter) {
      out.add({std::string(1, text[letter]), range.source->lines[letter], range.source->conditional,
               "", range.source->doubt});
    };
    if (c == '\\' && next != '\0') {
      if (quotes && std::string_view("$`\"\\\n").find(next) == std::string_view::npos) take(at);
      if (next != '\n') take(at + 1);
      at += 2;
    } else if (!quotes && (c == '\'' || c == '"')) {
      at = expand_quote(range, at, out);
    } else if (!quotes && c == '$' && (next == '\'' || next == '"')) {
      const ShellRange written{range.source, at,
                               std::min(behind_quoted(*range.source, at), range.end)};
      if (next == '"' || written.text().find('\\') == std::string::npos) {
        ++at;  // as without the $
        continue;
      }
      leave_open(written, cut(written) + " cannot be computed here", false, out);
      at = written.end;
    } else if (c == '$' || c == '`') {
      at = expand_dollar(range, at, quotes, out);
    } else {
      take(at++);
    }
  }
  --depth_;
}

size_t ShellExpansion::expand_quote(const ShellRange& range, size_t at, Fields& out) {
  const ShellSource& source = *range.source;
  const size_t end = std::min(behind_quoted(source, at), range.end);
  out.present = true;
  if (source.text[at] == '"') {
    expand({&source, at + 1, end - 1}, Mode::quotes, out);
    return end;
  }
  const ShellText inside = as_written({&source, at + 1, end - 1});
  for (const ShellPiece& piece : inside.pieces()) out.add(piece);
  return end;
}

// `$NAME`, `${...}`, `$(...)`, `$((...))` or backticks.
size_t ShellExpansion::expand_dollar(const ShellRange& range, size_t at, bool quoted, Fields& out) {
  const ShellSource& source = *range.source;
  const std::string& text = source.text;
  const char next = at + 1 < range.end ? text[at + 1] : '\0';
  size_t end = std::min(behind_quoted(source, at, quoted), range.end);
  const ShellRange written{&source, at, end};
  if (text[at] == '`' ||
      (next == '(' && !(text.compare(at, 3, "$((") == 0 && text.compare(end - 2, 2, "))") == 0))) {
    const size_t mark = text[at] == '`' ? 1 : 2;
    run_({&source, at + mark, end - 1});
    leave_open(written, cut(written) + " is known to the shell alone", quoted, out);
  } else if (next == '(') {
    arithmetic(written, quoted, out);
  } else if (next == '{') {
    braced(written, quoted, out);
  } else if (std::isdigit(static_cast<unsigned char>(next)) != 0 ||
             (next != '\0' && std::string_view("@*#?$!-").find(next) != std::string_view::npos)) {
    end = at + 2;
    variable(std::string(1, next), {&source, at, end}, quoted, out);
  } else {
    end = std::min(shell_name_end(text, at + 1), range.end);
    if (end == at + 1)
      out.add({"$", source.lines[at], source.conditional, "", source.doubt});
    else
      variable(text.substr(at + 1, end - at - 1), {&source, at, end}, quoted, out);
  }
  return end;
}

void ShellExpansion::leave_open(const ShellRange& written, std::string why, bool quoted,
                                Fields& out) {
  quoted = quoted && !may_be_several(written.text());
  out.add({written.text(), written.line(), written.source->conditional, std::move(why),
           written.source->doubt, !quoted && out.splits});
}

// What is not in quotes falls apart at blanks.
void ShellExpansion::put(const ShellText& text, bool quoted, Fields& out) {
  const bool splits = !quoted && out.splits;
  for (const ShellPiece& piece : text.pieces()) {
    if (!splits || !piece.open.empty() || is_cut_otherwise(state_)) {
      ShellPiece copy = piece;
      copy.splits = copy.splits || splits;
      if (splits && copy.open.empty()) copy.open = "IFS, which cuts text into words, is set";
      out.add(std::move(copy));
      continue;
    }
    for (const char c : piece.text) {
      if (is_blank(c)) {
        out.end();
        continue;
      }
      ShellPiece letter = piece;
      letter.text = std::string(1, c);
      out.add(std::move(letter));
    }
  }
}

void ShellExpansion::all_elements(const ShellValue& value, bool apart, bool quoted, Fields& out) {
  for (size_t i = 0; i < value.words.size(); ++i) {
    if (i > 0 && apart && out.splits) out.end();
    if (i > 0 && !(apart && out.splits)) out.add({" ", value.words[i].line()});
    if (quoted) out.present = true;
    ShellText word = value.words[i];
    // What an array has become may have any number of elements.
    if (apart && !value.array && word.pieces().size() == 1 && !word.open().empty())
      word.pieces()[0].splits = out.splits;
    if (value.conditional)
      for (ShellPiece& piece : word.pieces()) piece.conditional = true;
    put(word, quoted, out);
  }
}

void ShellExpansion::variable(const std::string& name, const ShellRange& written, bool quoted,
                              Fields& out) {
  const bool number = is_digits(name), all = name == "@" || name == "*";
  const auto* values = state_.find(number ? "@" : name == "*" ? "@" : name);
  if (!values && (number || all))
    return leave_open(
        written, (number ? "$" + name : written.text()) + " is given to the script when it runs",
        quoted && name != "@", out);
  if (const auto* given = state_.find("@"); name == "#" && given && given->size() == 1 &&
                                            !given->front().conditional &&
                                            counted(given->front(), given->front().words.size()))
    return out.add({std::to_string(given->front().words.size()), written.line()});
  if (!values && shell_name_end(name, 0) == 0)
    return leave_open(written, cut(written) + " is known to the shell alone", quoted, out);
  if (!values || values->size() != 1)
    return leave_open(written, why_open(state_, name), quoted, out);
  const ShellValue& value = values->front();
  if (all) return all_elements(value, name == "@" || !quoted, quoted, out);
  ShellValue one = value;
  const size_t place = number ? static_cast<size_t>(std::stoul(name.substr(0, 6))) : 1;
  if (place == 0) return leave_open(written, "$0 is known to the shell alone", quoted, out);
  if (number && !counted(value, place))
    return leave_open(written, why_open(state_, "@"), quoted, out);
  one.words.clear();
  if (place <= value.words.size()) one.words.push_back(value.words[place - 1]);
  all_elements(one, false, quoted, out);
}

// ${...}
void ShellExpansion::braced(const ShellRange& written, bool quoted, Fields& out) {
  const std::string inside =
      written.source->text.substr(written.begin + 2, written.end - written.begin - 3);
  size_t end = shell_name_end(inside, 0);
  if (end == 0)
    end = is_digits(inside.substr(0, 1))
              ? std::min(inside.find_first_not_of("0123456789"), inside.size())
          : !inside.empty() && (inside[0] == '@' || inside[0] == '*') ? 1
                                                                      : 0;
  const std::string name = inside.substr(0, end), rest = inside.substr(end);
  if (inside.starts_with("#") && length(inside.substr(1), written, quoted, out)) return;
  if (name.empty())
    return leave_open(written, cut(written) + " cannot be computed here", quoted, out);
  if (rest.empty()) return variable(name, written, quoted, out);
  if (several(name, end, written, quoted, out)) return;
  if (element(name, rest, written, quoted, out)) return;
  const size_t sign = rest[0] == ':' ? 1 : 0;
  if (sign < rest.size() && std::string_view("-=?+").find(rest[sign]) != std::string_view::npos)
    return otherwise(name, end, written, quoted, out);
  leave_open(written,
             state_.find(name) || is_digits(name) ? cut(written) + " cannot be computed here"
                                                  : why_open(state_, name),
             quoted, out);
}

// ${#NAME}, ${#NAME[@]}
bool ShellExpansion::length(const std::string& of, const ShellRange& written, bool quoted,
                            Fields& out) {
  const size_t end = shell_name_end(of, 0);
  const std::string index = of.substr(end);
  const auto* values = end == 0 ? nullptr : state_.find(of.substr(0, end));
  if (!values || values->size() != 1 || values->front().conditional) return false;
  const ShellValue& value = values->front();
  const bool all = index == "[@]" || index == "[*]";
  if ((!all && (!index.empty() || value.array || !value.words[0].open().empty())) ||
      !counted(value, value.words.size()))
    return false;
  ShellPiece n{std::to_string(all ? value.words.size() : value.words[0].size()), written.line()};
  for (const ShellText& word : value.words) {
    n.conditional = n.conditional || word.conditional();
    if (n.doubt.empty()) n.doubt = word.doubt();
  }
  put(ShellText(std::move(n)), quoted, out);
  return true;
}

// ${NAME[@]}, ${NAME[*]}, ${NAME[2]}
bool ShellExpansion::element(const std::string& name, const std::string& rest,
                             const ShellRange& written, bool quoted, Fields& out) {
  if (rest.size() < 3 || rest[0] != '[' || rest.back() != ']') return false;
  const std::string index = rest.substr(1, rest.size() - 2);
  const auto* values = state_.find(name);
  if (!values || values->size() != 1) {
    leave_open(written, why_open(state_, name), quoted && index != "@", out);
    return true;
  }
  const bool all = index == "@" || index == "*";
  if (!all && !counted(values->front(), values->front().words.size())) return false;
  if (!all && (!is_digits(index) || index.size() > 6)) return false;
  ShellValue chosen = values->front();
  if (!all) {
    const size_t place = std::stoul(index);
    chosen.words.clear();
    if (place < values->front().words.size()) chosen.words.push_back(values->front().words[place]);
  }
  all_elements(chosen, index == "@" || !quoted, quoted, out);
  return true;
}

// ${NAME[@]:1}, ${@:2:1}, ${NAME[@]:-text}, ${NAME[@]+"${NAME[@]}"}; the sign stands behind `at`.
bool ShellExpansion::several(const std::string& name, size_t at, const ShellRange& written,
                             bool quoted, Fields& out) {
  const ShellSource& source = *written.source;
  size_t sign = written.begin + 2 + at;
  const bool given = name == "@" || name == "*";
  const std::string index = given ? name : source.text.substr(sign, 3);
  if (!given && index != "[@]" && index != "[*]") return false;
  const bool apart = !quoted || index.find('@') != std::string::npos;
  if (!given) sign += 3;
  const std::string rest = source.text.substr(sign, written.end - 1 - sign);
  const auto* values = state_.find(given ? "@" : name);
  if (rest.empty() || !values || values->size() != 1) return false;
  const ShellValue& value = values->front();
  if (value.conditional || !counted(value, value.words.size())) return false;
  if (const auto slice = slice_of(rest)) {
    // $0, which is not among them, is the first of "$@".
    if (given && slice->from == 0) return false;
    const size_t from = std::min(slice->from - (given ? 1 : 0), value.words.size());
    const size_t to = from + std::min(slice->most, value.words.size() - from);
    ShellValue part = value;
    part.words.assign(value.words.begin() + static_cast<std::ptrdiff_t>(from),
                      value.words.begin() + static_cast<std::ptrdiff_t>(to));
    all_elements(part, apart, quoted, out);
    return true;
  }
  const size_t what = rest[0] == ':' ? 1 : 0;
  if (what >= rest.size() || (rest[what] != '-' && rest[what] != '+')) return false;
  const bool empty = value.words.empty() ||
                     (what == 1 && value.words.size() == 1 && value.words[0].plain().empty());
  if (!empty && rest[what] == '-') {
    all_elements(value, apart, quoted, out);
  } else if (empty == (rest[what] == '-')) {
    ShellRange text{&source, sign + what + 1, written.end - 1};
    const std::string written_text = text.text();
    const bool strip = quoted && written_text.size() > 1 && written_text.front() == '"' &&
                       written_text.back() == '"';
    if (strip) ++text.begin, --text.end;
    expand(text, quoted ? Mode::quotes : Mode::split, out);
  }
  return true;
}

// ${NAME:-text} and its like; the sign stands behind the name.
void ShellExpansion::otherwise(const std::string& name, size_t at, const ShellRange& written,
                               bool quoted, Fields& out) {
  const ShellSource& source = *written.source;
  size_t sign = written.begin + 2 + at;
  const bool or_empty = source.text[sign] == ':';
  if (or_empty) ++sign;
  const char what = source.text[sign];
  const ShellRange text{&source, sign + 1, written.end - 1};
  const auto* values = state_.find(is_digits(name) ? "@" : name);
  if (!values && (is_digits(name) || name == "@" || name == "*") && what == '+')
    return leave_open(written, fmt::format("${} is given to the script when it runs", name), quoted,
                      out);
  const bool several = values && (values->size() > 1 || values->front().conditional);
  if (several || (values && is_digits(name)))
    return leave_open(written, why_open(state_, is_digits(name) ? "@" : name), quoted, out);
  ShellText value;
  if (values && !values->front().words.empty()) value = values->front().words[0];
  if (values && or_empty && !value.open().empty())
    return leave_open(written, value.open(), quoted, out);
  const bool set = values && !(or_empty && value.size() == 0);
  if (set ? what != '+' : what == '?') return variable(name, written, quoted, out);
  if (what == '+' && !set) {
    if (quoted) out.present = true;
    if (!values && (quoted || !out.splits)) out.assume(written.line());
    return;
  }
  if (what == '-' && !values && text.begin == text.end && (quoted || !out.splits))
    out.assume(written.line());
  Fields inner;
  inner.splits = !quoted && out.splits;
  if (what == '=') {
    Fields whole;
    expand(text, quoted ? Mode::quotes : Mode::whole, whole);
    ShellValue assigned;
    assigned.words = {whole.now};
    assigned.line = written.line();
    state_.set(name, std::move(assigned));
    return variable(name, written, quoted, out);
  }
  expand(text, quoted ? Mode::quotes : inner.splits ? Mode::split : Mode::whole, inner);
  if (quoted) out.present = true;
  const bool plain = source.text.substr(text.begin, text.end - text.begin).find_first_of("\"'") ==
                     std::string::npos;
  inner.end();
  for (size_t i = 0; i < inner.ready.size(); ++i) {
    if (i > 0) out.end();
    put(inner.ready[i], quoted || !plain, out);
  }
}

// $((...))
void ShellExpansion::arithmetic(const ShellRange& written, bool quoted, Fields& out) {
  const ShellText text = this->quoted({written.source, written.begin + 3, written.end - 2});
  ShellPiece result = calculated(text, cut(written), state_);
  if (!result.open.empty()) return leave_open(written, result.open, quoted, out);
  result.line = written.line();
  result.conditional = result.conditional || written.source->conditional;
  put(ShellText(std::move(result)), quoted, out);
}

ShellText expand_text(const std::string& text, ShellState& state) {
  const ShellSource source(text);
  try {
    return ShellExpansion(state, [](const ShellRange&) {}).quoted({&source, 0, source.text.size()});
  } catch (const ShellError&) {
    return ShellText({text, 0, false, quoted(text.substr(0, 80)) + " cannot be computed here"});
  }
}

}  // namespace s2t
