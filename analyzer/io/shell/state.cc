#include "analyzer/io/shell/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

constexpr size_t kMostValues = 16;        // of one variable
constexpr size_t kMostLetters = 1 << 16;  // of one value

bool same(const ShellValue& a, const ShellValue& b) {
  return a.array == b.array && a.words == b.words;
}

bool same(const std::vector<ShellValue>& a, const std::vector<ShellValue>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return same(x, y) && x.conditional == y.conditional;
  });
}

void make_conditional(ShellText& text) {
  for (ShellPiece& piece : text.pieces()) piece.conditional = true;
}

// Words that blanks separate, each with its pieces.
std::vector<ShellText> split(const ShellText& text) {
  std::vector<ShellText> words;
  bool begins = true;
  for (const ShellPiece& piece : text.pieces())
    for (size_t at = 0; at < piece.text.size(); ++at) {
      const bool blank = is_blank(piece.text[at]);
      if (!blank && begins) words.emplace_back();
      begins = blank;
      if (blank) continue;
      ShellPiece letter = piece;
      letter.text = piece.text[at];
      if (piece.open.empty()) {
        words.back().add(letter);
      } else {
        words.back().add(piece);
        break;
      }
    }
  return words;
}

bool are_flags(const std::vector<ShellText>& words, size_t from) {
  return from == words.size() || words[from].plain().starts_with("--");
}

// Lists of flags that begin alike: what one of them has more is taken as if it were executed, as
// flags in a branch are. False if these are no such lists.
bool join_flags(ShellValue& a, const ShellValue& b) {
  if (a.array != b.array) return false;
  const std::vector<ShellText> mine = a.array ? a.words : split(a.words[0]);
  const std::vector<ShellText> theirs = b.array ? b.words : split(b.words[0]);
  size_t alike = 0;
  while (alike < std::min(mine.size(), theirs.size()) && mine[alike] == theirs[alike]) ++alike;
  while (alike > 0 && !(are_flags(mine, alike) && are_flags(theirs, alike))) --alike;
  if (!are_flags(mine, alike) || !are_flags(theirs, alike)) return false;
  std::vector<ShellText> all(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(alike));
  for (const auto* words : {&mine, &theirs})
    for (size_t i = alike; i < words->size(); ++i) {
      all.push_back((*words)[i]);
      make_conditional(all.back());
    }
  if (a.array) {
    a.words = std::move(all);
    return true;
  }
  ShellText line;
  for (const ShellText& word : all) {
    if (!line.pieces().empty()) line.add({" ", word.line()});
    line.add(word);
  }
  a.words = {line};
  return true;
}

// Adds those of `more` that are not there yet.
void add_values(std::vector<ShellValue>& values, const std::vector<ShellValue>& more) {
  for (const ShellValue& value : more) {
    const auto it = std::find_if(values.begin(), values.end(),
                                 [&](const ShellValue& v) { return same(v, value); });
    if (it != values.end())
      it->conditional = it->conditional || value.conditional;
    else if (values.size() == 1 && more.size() == 1 && join_flags(values[0], value))
      values[0].conditional = values[0].conditional || value.conditional;
    else if (values.size() < kMostValues)
      values.push_back(value);
  }
}

std::string brief(const ShellValue& value) {
  std::vector<std::string> words;
  for (const ShellText& word : value.words) words.push_back(word.plain());
  const std::string all = join(words, " ");
  return all.empty() ? "empty" : all.substr(0, 80);
}

bool begins_with(const ShellValue& value, const ShellValue& front) {
  if (value.array != front.array || front.words.size() > value.words.size()) return false;
  if (!value.array)
    return value.words[0].plain().starts_with(front.words[0].plain() + " ") ||
           front.words[0].plain().empty();
  return std::equal(front.words.begin(), front.words.end(), value.words.begin());
}

size_t letters_of(const ShellValue& value) {
  size_t letters = 0;
  for (const ShellText& word : value.words) letters += word.size() + 1;
  return letters;
}

}  // namespace

bool counted(const ShellValue& value, size_t place) {
  for (size_t i = 0; i < std::min(place, value.words.size()); ++i)
    for (const ShellPiece& piece : value.words[i].pieces())
      if (piece.splits || (!value.array && !piece.open.empty())) return false;
  return true;
}

const std::vector<ShellValue>* ShellState::find(const std::string& name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? nullptr : &it->second;
}

void ShellState::set(const std::string& name, ShellValue value) {
  const auto* before = find(name);
  value.exported = value.exported || exports_;
  if (before) {
    const ShellValue& old = before->front();
    value.exported = value.exported || old.exported;
    value.integer = value.integer || old.integer;
    if (is_readonly(name)) return open(name, name + " is readonly", value.line);
    if (old.array && !value.array) return open(name, name + " is an array", value.line);
  }
  if (letters_of(value) > kMostLetters)
    return open(name, fmt::format("\"${}\" cannot be computed here", name), value.line);
  values_[name] = {std::move(value)};
}

bool ShellState::is_readonly(const std::string& name) const {
  const auto* values = find(name);
  return values && std::any_of(values->begin(), values->end(),
                               [](const ShellValue& value) { return value.readonly; });
}

void ShellState::set_arguments(std::vector<ShellText> words, int line) {
  unset("@");
  set("@", {.words = std::move(words), .array = true, .line = line});
}

void ShellState::append(const std::string& name, ShellValue more) {
  const auto* before = find(name);
  if (!before) return set(name, std::move(more));
  if (before->size() > 1) return open(name, why_open(*this, name), more.line);
  ShellValue value = before->front();
  if (value.integer || value.conditional || (value.array && !more.array))
    return open(name, fmt::format("\"${}\" cannot be computed here", name), more.line);
  value.line = more.line;
  if (more.array && !value.array)  // what an array has become
    for (ShellPiece& piece : value.words[0].pieces()) piece.splits = !piece.open.empty();
  if (more.array)
    value.words.insert(value.words.end(), more.words.begin(), more.words.end());
  else
    value.words[0].add(more.words[0]);
  value.array = more.array;
  if (value.readonly) return open(name, name + " is readonly", more.line);
  set(name, std::move(value));
}

void ShellState::open(const std::string& name, std::string why, int line) {
  ShellValue value;
  value.exported = find(name) ? find(name)->front().exported : exports_;
  value.readonly = is_readonly(name);
  value.words.emplace_back(ShellPiece{"$" + name, line, false, std::move(why)});
  value.line = line;
  values_[name] = {std::move(value)};
}

void ShellState::mark(const std::string& name, bool ShellValue::*what, bool on) {
  if (const auto it = values_.find(name); it != values_.end())
    for (ShellValue& value : it->second) value.*what = on;
}

void ShellState::doubt(const std::string& who) {
  for (auto& [name, values] : values_)
    for (ShellValue& value : values) {
      const std::string why = fmt::format("{} may set {}", who, name);
      for (ShellText& word : value.words)
        for (ShellPiece& piece : word.pieces())
          if (piece.doubt.empty()) piece.doubt = why;
      if (value.array && value.words.empty())
        value.words.emplace_back(ShellPiece{"$" + name, value.line, false, why, "", true});
    }
}

void ShellState::join(const ShellState& other) {
  if (other.dead) return;
  if (dead) {
    *this = other;
    return;
  }
  for (auto& [name, values] : values_)
    if (!other.find(name))
      for (ShellValue& value : values) value.conditional = true;
  for (const auto& [name, more] : other.values_) {
    const auto [it, fresh] = values_.try_emplace(name, more);
    if (!fresh) {
      add_values(it->second, more);
      continue;
    }
    for (ShellValue& value : it->second) value.conditional = true;
  }
}

// What a list had before the loop stays in front.
void ShellState::widen(const ShellState& other, int line) {
  for (auto& [name, values] : values_) {
    const auto* before = other.find(name);
    if (!before || same(values, *before)) continue;
    ShellValue value = before->front();
    value.line = line;
    const bool several = before->size() > 1 || values.size() > 1 || !begins_with(values[0], value);
    if (several) value.words.assign(1, ShellText());
    const std::string why = fmt::format("{} changes in the loop of line {}", name, line);
    if (value.array)
      value.words.emplace_back(ShellPiece{"$" + name, line, false, why, "", true});
    else
      value.words[0].add({(several ? "$" : " $") + name, line, false, why});
    values = {std::move(value)};
  }
}

ShellState ShellState::environment() const {
  ShellState inner = *this;
  std::erase_if(inner.values_, [](const auto& entry) {
    return std::none_of(entry.second.begin(), entry.second.end(),
                        [](const ShellValue& v) { return v.exported && !v.array; });
  });
  return inner;
}

size_t ShellState::weight() const {
  size_t all = 0;
  for (const auto& [name, values] : values_)
    for (const ShellValue& value : values) {
      all += 1 + value.words.size();
      for (const ShellText& word : value.words) all += word.pieces().size();
    }
  return all;
}

bool ShellState::operator==(const ShellState& other) const {
  return dead == other.dead && std::equal(values_.begin(), values_.end(), other.values_.begin(),
                                          other.values_.end(), [](const auto& a, const auto& b) {
                                            return a.first == b.first && same(a.second, b.second);
                                          });
}

std::string why_open(const ShellState& state, const std::string& name) {
  const auto* values = state.find(name);
  if (!values) return fmt::format("{} is set nowhere in the file", name);
  if (values->size() == 1) {
    const ShellValue& value = values->front();
    for (const ShellText& word : value.words)
      if (const std::string why = word.open(); !why.empty()) return why;
    return value.conditional
               ? fmt::format("{} is {} (line {}) or not set", name, brief(value), value.line)
               : fmt::format("\"${}\" cannot be computed here", name);
  }
  std::vector<std::string> each;
  for (const ShellValue& value : *values)
    each.push_back(fmt::format("{} (line {})", brief(value), value.line));
  return fmt::format("{} is {}", name, s2t::join(each, " or "));
}

}  // namespace s2t
