#include "analyzer/io/shell/assignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analyzer/base/text.h"
#include "analyzer/io/shell/arithmetic.h"

namespace s2t {
namespace {

// Behind its first letters.
ShellText without(const ShellText& text, size_t letters) {
  ShellText rest;
  for (ShellPiece piece : text.pieces()) {
    const size_t gone = std::min(letters, piece.text.size());
    letters -= gone;
    if (gone == piece.text.size() && gone > 0) continue;
    piece.text.erase(0, gone);
    rest.add(std::move(piece));
  }
  return rest;
}

void make_local(const std::string& name, bool sets, ShellState& state, ShellLocals& locals) {
  const auto* values = state.find(name);
  locals.try_emplace(name, values ? *values : std::vector<ShellValue>());
  if (!sets) state.unset(name);
}

// Who declares, and how: "export", "-x".
struct Declaration {
  std::string command, options = {};

  bool has(char option) const { return options.find(option) != std::string::npos; }
  bool is(const char* name) const { return command == name; }
};

void mark(const Declaration& d, const std::string& name, ShellState& state) {
  if (d.is("export") || d.has('x')) state.mark(name, &ShellValue::exported, !d.has('n'));
  if (d.is("readonly") || d.has('r')) state.mark(name, &ShellValue::readonly);
  if (d.has('i')) state.mark(name, &ShellValue::integer);
}

// local -n REF=NAME: either may change where the other is set.
void refer(const std::string& name, const ShellAssignment* a, int line, ShellState& state) {
  const std::string why = fmt::format("{} is another name (line {})", name, line);
  state.doubt(why);
  state.open(name, why, line);
  const std::string other = a ? a->value.words[0].plain() : "";
  if (!other.empty() && shell_name_end(other, 0) == other.size()) state.open(other, why, line);
}

// Behind the bracket that closes the one at text[at]: "[${#A[@]}]".
size_t behind_index(const std::string& text, size_t at) {
  size_t open = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '[') ++open;
    if (text[at] == ']' && --open == 0) return at + 1;
  }
  return at;
}

int64_t index_of(const ShellRange& range, ShellExpansion& expansion) {
  if (range.end <= range.begin || range.text().find('"') != std::string::npos) return -1;
  const ShellText text = expansion.quoted(range);
  if (!text.open().empty() || text.conditional()) return -1;
  return computed(text.plain(), [](const std::string& word) { return word; }).value_or(-1);
}

// NAME[i]=value of an array that has all elements up to there.
bool assign_element(ShellState& state, const ShellAssignment& a) {
  const auto* before = state.find(a.name);
  if (a.more || a.value.array || (before && before->size() != 1)) return false;
  ShellValue value = before ? before->front() : ShellValue{.words = {}, .array = true};
  const auto place = static_cast<size_t>(a.index);
  if (!value.array || value.conditional || a.index < 0 || place > value.words.size() ||
      !counted(value, value.words.size()))
    return false;
  if (place == value.words.size()) value.words.emplace_back();
  value.words[place] = a.value.words[0];
  value.line = a.value.line;
  state.set(a.name, std::move(value));
  return true;
}

}  // namespace

std::optional<ShellAssignment> read_assignment(const ShellWord& word, ShellExpansion expansion) {
  const std::string text = word.text();
  const size_t name = shell_name_end(text, 0);
  size_t end = name;
  ShellAssignment a;
  if (end > 0 && end < text.size() && text[end] == '[') {
    end = std::min(behind_index(text, end), text.size());
    a.element = true;
    a.index = index_of({word.source, word.begin + name + 1, word.begin + end - 1}, expansion);
  }
  a.more = text.compare(end, 2, "+=") == 0;
  if (name == 0 || (!a.more && text.compare(end, 1, "=") != 0)) return std::nullopt;
  a.name = text.substr(0, name);
  a.value.line = word.line();
  a.value.array = word.array;
  for (const ShellWord& element : word.elements) {
    a.element = a.element || element.text().starts_with("[");
    for (ShellText& one : expansion.words(element)) a.value.words.push_back(std::move(one));
  }
  if (!word.array)
    a.value.words.push_back(
        expansion.value({word.source, word.begin + end + (a.more ? 2 : 1), word.end}));
  return a;
}

void assign(ShellState& state, const ShellAssignment& a) {
  if (a.element && assign_element(state, a)) return;
  if (a.element)
    state.open(a.name, fmt::format("elements of {} are set one by one", a.name), a.value.line);
  else if (a.more)
    state.append(a.name, a.value);
  else
    state.set(a.name, a.value);
}

void assign_environment(const std::vector<ShellText>& words, size_t end, ShellState& state) {
  bool env = false;
  for (size_t i = 0; i < end; ++i) {
    const std::string word = words[i].plain(), before = i > 0 ? words[i - 1].plain() : "";
    env = env || base_name(word) == "env" || word == "sudo";
    if (env && (word == "-i" || word == "-")) state.clear();
    if (env && before == "-u") state.unset(word);
    if (env && word.starts_with("--unset=")) state.unset(word.substr(8));
    const size_t name = assigned_name_end(word);
    if (name == 0 || !(env || before == "-x" || before == "-e" || before == "--env")) continue;
    ShellAssignment a{word.substr(0, name),
                      {.words = {}, .line = words[i].line(), .exported = true}};
    a.value.words.push_back(without(words[i], name + 1));
    state.unset(a.name);
    assign(state, a);
  }
}

bool is_declaration(const std::string& command) {
  return among(command, "export declare local readonly typeset");
}

void declare(const std::vector<ShellWord>& words, ShellState& state, ShellLocals* locals,
             ShellExpansion expansion) {
  Declaration d{words[0].text()};
  if (d.is("local") && !locals) return;  // an error outside a function
  const bool local = !d.is("export") && !d.is("readonly") && locals;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string text = words[i].text();
    if (text.starts_with("-") || text.starts_with("+")) {
      d.options += text;
      continue;
    }
    std::optional<ShellAssignment> a = read_assignment(words[i], expansion);
    if (!a && shell_name_end(text, 0) != text.size()) {
      state.doubt(fmt::format("{} (line {})", d.command, words[i].line()));
      continue;
    }
    const std::string name = a ? a->name : text;
    if (local && !d.has('g')) make_local(name, a.has_value(), state, *locals);
    if (d.has('n') && !d.is("export")) {
      refer(name, a && !a->value.array ? &*a : nullptr, words[i].line(), state);
      continue;
    }
    if (a) a->value.integer = d.has('i');
    if (a) assign(state, *a);
    mark(d, name, state);
  }
}

}  // namespace s2t
