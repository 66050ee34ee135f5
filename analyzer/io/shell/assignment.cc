#include "analyzer/io/shell/assignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace s2t {
namespace {

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

}  // namespace

std::optional<ShellAssignment> read_assignment(const ShellWord& word, ShellExpansion expansion) {
  const std::string text = word.text();
  const size_t name = shell_name_end(text, 0);
  size_t end = name;
  ShellAssignment a;
  if (end > 0 && end < text.size() && text[end] == '[') {
    end = std::min(text.find(']', end), text.size() - 1) + 1;
    a.element = true;
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
  if (a.element)
    state.open(a.name, fmt::format("elements of {} are set one by one", a.name), a.value.line);
  else if (a.more)
    state.append(a.name, a.value);
  else
    state.set(a.name, a.value);
}

bool is_declaration(const std::string& command) {
  for (const char* name : {"export", "declare", "local", "readonly", "typeset"})
    if (command == name) return true;
  return false;
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
    if (d.has('n') && !d.is("export"))
      state.doubt(fmt::format("{} -n (line {})", d.command, words[i].line()));
    if (a) a->value.integer = d.has('i');
    if (a) assign(state, *a);
    mark(d, name, state);
  }
}

}  // namespace s2t
