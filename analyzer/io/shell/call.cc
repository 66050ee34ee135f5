#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analyzer/base/text.h"
#include "analyzer/io/shell/builtins.h"
#include "analyzer/io/shell/condition.h"
#include "analyzer/io/shell/runner.h"

namespace s2t {

ShellExpansion Runner::expansion() {
  return {state_, [this](const ShellRange& inside) { substitute(inside); }};
}

std::vector<ShellText> Runner::expand(const ShellWord& word) {
  std::vector<ShellText> words = expansion().words(word);
  for (const ShellText& each : words) work(each.size() / 4);
  return words;
}

// $(...): what it prints is not known; what it starts is.
void Runner::substitute(const ShellRange& inside) {
  const Deeper deeper(depth_, inside.line());
  const ShellText text = as_written(inside);
  const auto status = status_;
  apart([&] { script_of(sources_.emplace_back(text)); });
  status_ = status;
}

void Runner::simple(const ShellCommand& c) {
  size_t first = 0;
  std::vector<ShellAssignment> assignments;
  const bool assigns = !c.words.empty() && c.words[0].text().find('=') != std::string::npos;
  const ShellState before = assigns ? state_ : ShellState();
  for (; first < c.words.size(); ++first) {
    auto a = read_assignment(c.words[first], expansion());
    if (!a) break;
    for (const ShellText& word : a->value.words) work(word.size() / 4);
    assign(state_, *a);
    assignments.push_back(std::move(*a));
  }
  if (first == c.words.size()) {
    const bool asks = std::any_of(c.words.begin(), c.words.end(), [](const ShellWord& word) {
      const std::string text = word.text();
      return word.array || text.find("$(") != text.npos || text.find('`') != text.npos;
    });
    if (!asks && !c.words.empty()) status_ = true;
    return;
  }
  // Before a command they hold for that alone, and not for its words.
  if (!assignments.empty()) state_ = before;
  const std::string name = c.words[first].text();
  if (is_declaration(name))
    return declare({c.words.begin() + static_cast<std::ptrdiff_t>(first), c.words.end()}, state_,
                   locals_.empty() ? nullptr : &locals_.back(), expansion());
  std::vector<ShellText> words;
  for (size_t i = first; i < c.words.size(); ++i)
    for (ShellText& word : expand(c.words[i])) words.push_back(std::move(word));
  while (words.size() > 1 && among(words[0].plain(), "command builtin")) words.erase(words.begin());
  if (words.empty()) return;
  test(words);
  if (assignments.empty()) return call(c, words);
  const ShellState outside = state_;
  for (const ShellAssignment& a : assignments) {
    assign(state_, a);
    state_.mark(a.name, &ShellValue::exported);
  }
  call(c, words);
  for (const ShellAssignment& a : assignments) restore(a.name, outside);
}

// What is known of the status of a command.
void Runner::test(const std::vector<ShellText>& words) {
  const std::string name = words[0].plain();
  if (functions_.count(name) > 0) return;
  if (among(name, ": true echo")) status_ = true;
  if (name == "false") status_ = false;
  if (abstract_ > 0 || !among(name, "[ test")) return;
  std::vector<ShellOperand> operands;
  for (size_t i = 1; i + (name == "[" ? 1 : 0) < words.size(); ++i)
    operands.push_back({words[i], false});
  if (name == "test" || words.back().plain() == "]") status_ = tested(operands);
}

void Runner::restore(const std::string& name, const ShellState& outside) {
  state_.unset(name);
  if (const auto* values = outside.find(name)) state_.put(name, *values);
}

// What a name calls: a function, the shell itself, or a program.
void Runner::call(const ShellCommand& c, std::vector<ShellText>& words) {
  const std::string name = words[0].plain();
  if (const auto it = functions_.find(name); it != functions_.end())
    return call_function(it->second, {words.begin() + 1, words.end()}, c.line);
  if (words[0].open().ends_with("given to the script when it runs")) perhaps_functions(c.line);
  if (builtin(c, words)) return;
  if (quiet_ == 0) calls_.push_back({words, conditional_ > 0});
  scripts(c, words);
}

void Runner::call_function(const std::vector<const ShellCommand*>& bodies,
                           std::vector<ShellText> given, int line) {
  const Deeper deeper(depth_, line);
  const ShellState before = state_;
  ShellState after = ShellState::nowhere();
  conditional_ += bodies.size() > 1 ? 1 : 0;
  for (const ShellCommand* body : std::vector(bodies)) {
    state_ = before;
    one_call(*body, given, line);
    after.join(state_);
  }
  conditional_ -= bodies.size() > 1 ? 1 : 0;
  if (bodies.size() > 1) status_.reset();
  state_ = std::move(after);
  restore("@", before);
}

void Runner::one_call(const ShellCommand& body, const std::vector<ShellText>& given, int line) {
  state_.set_arguments(given, line);
  const auto returns = std::exchange(returns_, ShellState::nowhere());
  const int loops = std::exchange(loops_, 0);
  locals_.emplace_back();
  run(body.parts[0]);
  if (!returns_.dead) status_.reset();
  loops_ = loops;
  state_.join(returns_);
  returns_ = returns;
  for (const auto& [name, values] : locals_.back()) {
    state_.unset(name);
    if (!values.empty()) state_.put(name, values);
  }
  locals_.pop_back();
}

// A command that only the shell of the day knows may be any function.
void Runner::perhaps_functions(int line) {
  const auto all = functions_;
  for (const auto& [name, bodies] : all)
    if (depth_ < 2) perhaps([&, &bodies = bodies] { call_function(bodies, {}, line); });
}

// Outside a function there is nothing to return from, outside a loop nothing to break.
void Runner::leave(const std::string& how, const std::vector<ShellText>& words, int line) {
  const bool function = how == "return", loop = how == "break" || how == "continue";
  if ((function && locals_.empty()) || (loop && loops_ == 0)) return;
  if (loop && words.size() > 1) throw ShellError{line, "a loop in a loop that is left at once"};
  if (function) returns_.join(state_);
  if (loop) breaks_.join(state_);
  broken_ = broken_ || how == "break";
  continued_ = continued_ || how == "continue";
  state_.dead = true;
}

// What the shell does itself. False: it is a program.
bool Runner::builtin(const ShellCommand& c, std::vector<ShellText>& words) {
  const std::string name = words[0].plain();
  if (among(name, "exit return break continue")) {
    leave(name, words, c.line);
    return true;
  }
  if (name == "exec") {
    words.erase(words.begin());
    if (words.empty()) return true;
    call(c, words);
    state_.dead = true;
    return true;
  }
  if (name == "eval") {
    evaluate(words, c.line);
    return true;
  }
  if (name == "cat" && c.to_file) documents(c);
  return run_builtin(state_, words, c.line);
}

void Runner::evaluate(const std::vector<ShellText>& words, int line) {
  const Deeper deeper(depth_, line);
  ShellText all;
  for (size_t i = 1; i < words.size(); ++i) {
    if (i > 1) all.add({" ", line});
    all.add(words[i]);
  }
  if (!all.open().empty()) state_.doubt(fmt::format("eval (line {})", line));
  inner(all);
}

void Runner::inner(const ShellText& text) {
  const ShellSource& source = sources_.emplace_back(text);
  const int more = source.conditional ? 1 : 0;
  conditional_ += more;
  script_of(source);
  conditional_ -= more;
}

void Runner::documents(const ShellCommand& c) {
  ++conditional_;
  for (const auto& document : c.documents) read_document(*document, false);
  --conditional_;
}

// A script of its own, if it is one.
void Runner::read_document(const ShellDocument& d, bool surely) {
  const ShellText text = d.verbatim ? as_written(d) : expansion().quoted(d);
  if (text.plain().find(" --") == std::string::npos) return;
  const Deeper deeper(depth_, d.line());
  try {
    apart([&] {
      state_ = state_.environment();
      inner(text);
    });
  } catch (const ShellError&) {
    if (surely) throw;
  }
}

// bash -c "...", and here-documents that a program reads.
void Runner::scripts(const ShellCommand& c, const std::vector<ShellText>& words) {
  bool shell = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i].plain();
    shell = shell || is_shell(word);
    if (!shell || !word.starts_with("-") || word.starts_with("--") || !word.ends_with("c"))
      continue;
    if (i + 1 < words.size()) nested(words, i + 1, c.line);
    break;
  }
  if (among(words[0].plain(), "ssh pdsh") && words.size() > 2)
    nested(words, words.size() - 1, c.line);
  for (const auto& document : c.documents) read_document(*document, is_shell(words[0].plain()));
}

void Runner::nested(const std::vector<ShellText>& words, size_t text, int line) {
  const Deeper deeper(depth_, line);
  apart([&] {
    assign_environment(words, text, state_);
    state_ = state_.environment();
    inner(words[text]);
  });
}

}  // namespace s2t
