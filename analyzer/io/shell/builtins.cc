#include "analyzer/io/shell/builtins.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "analyzer/base/text.h"
#include "analyzer/io/shell/sum.h"

namespace s2t {
namespace {

// Those that set nothing, and programs that print.
constexpr std::string_view kQuiet[] = {
    ":",     "true",  "false", "echo",  "[",     "test",   "cd",    "pushd", "popd",
    "umask", "alias", "trap",  "wait",  "shopt", "ulimit", "hash",  "type",  "module",
    "pwd",   "kill",  "jobs",  "times", "cat",   "sleep",  "mkdir", "rm",    "logger"};

using Words = std::vector<ShellText>;

// read NAME...; -a ARRAY
void read_names(ShellState& state, const Words& words, int line) {
  const std::string who = words[0].plain();
  bool named = false;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string word = words[i].plain();
    const bool option = word.starts_with("-");
    // Options with a value of their own: what is no name is none.
    if (option || shell_name_end(word, 0) != word.size() || word.empty()) {
      if (!option && !words[i].open().empty()) state.doubt(fmt::format("{} (line {})", who, line));
      continue;
    }
    named = true;
    state.open(word, fmt::format("{} is set by {} (line {})", word, who, line), line);
  }
  const char* unnamed = who == "read" ? "REPLY" : "MAPFILE";
  if (!named)
    state.open(unnamed, fmt::format("{} is set by {} (line {})", unnamed, who, line), line);
}

// getopts OPTIONS NAME
void read_option(ShellState& state, const Words& words, int line) {
  for (const std::string& name :
       {words.size() > 2 ? words[2].plain() : "OPT", std::string("OPTARG"), std::string("OPTIND")})
    state.open(name, fmt::format("{} is set by getopts (line {})", name, line), line);
}

// printf -v NAME ...
void print(ShellState& state, const Words& words, int line) {
  if (words.size() < 3 || !words[1].plain().starts_with("-v")) return;
  const std::string name = words[1].plain() == "-v" ? words[2].plain() : words[1].plain().substr(2);
  if (shell_name_end(name, 0) != name.size())
    return state.doubt(fmt::format("printf -v (line {})", line));
  state.open(name, fmt::format("{} is set by printf (line {})", name, line), line);
}

// let TP=8 "X *= 2"
void let(ShellState& state, const Words& words, int) {
  for (size_t i = 1; i < words.size(); ++i)
    calculated(words[i], quoted("let " + words[i].plain().substr(0, 80)), state);
}

void unset(ShellState& state, const Words& words, int line) {
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string word = words[i].plain();
    if (word == "-f") return;
    const size_t end = shell_name_end(word, 0);
    if (end == word.size() && !state.is_readonly(word))
      state.unset(word);
    else if (end > 0)
      state.open(word.substr(0, end), "elements of it are unset", line);
    else if (!words[i].open().empty())
      state.doubt(fmt::format("unset (line {})", line));
  }
}

// set -a, set -o allexport, set -- a b
void set_options(ShellState& state, const Words& words, int line) {
  bool named = false;  // the word behind -o
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string word = words[i].plain();
    const bool option = word != "--" && (word.starts_with("-") || word.starts_with("+"));
    if (named ? word == "allexport" : option && word[0] == '-' && word.find('a') != word.npos)
      state.export_all();
    if (std::exchange(named, option && word.ends_with("o")) || option) continue;
    const auto from = static_cast<std::ptrdiff_t>(word == "--" ? i + 1 : i);
    return state.set_arguments({words.begin() + from, words.end()}, line);
  }
}

void shift(ShellState& state, const Words& words, int line) {
  const auto* given = state.find("@");
  if (!given) return;
  const std::string count = words.size() > 1 ? words[1].plain() : "1";
  const bool known = given->size() == 1 && !given->front().conditional && count.size() < 7 &&
                     count.find_first_not_of("0123456789") == std::string::npos && !count.empty() &&
                     (words.size() < 2 || !words[1].conditional());
  ShellValue rest = given->front();
  const size_t n = known ? std::stoul(count) : 0;
  if (!known || !counted(rest, n))
    return state.open("@", fmt::format("arguments are shifted (line {})", line), line);
  if (n > rest.words.size()) return;  // fails, and shifts none
  rest.words.erase(rest.words.begin(), rest.words.begin() + static_cast<std::ptrdiff_t>(n));
  state.unset("@");
  state.set("@", std::move(rest));
}

void source(ShellState& state, const Words& words, int line) {
  const std::string file = words.size() > 1 ? words[1].plain() : "";
  state.doubt(fmt::format("{} {} (line {})", words[0].plain(), file.substr(0, 80), line));
}

struct Builtin {
  std::string_view name;
  void (*run)(ShellState&, const Words&, int line);
};
constexpr Builtin kBuiltins[] = {
    {"read", read_names},     {"mapfile", read_names}, {"readarray", read_names},
    {"getopts", read_option}, {"printf", print},       {"let", let},
    {"unset", unset},         {"set", set_options},    {"shift", shift},
    {"source", source},       {".", source},
};

}  // namespace

bool run_builtin(ShellState& state, const std::vector<ShellText>& words, int line) {
  const std::string name = words[0].plain();
  for (const Builtin& builtin : kBuiltins)
    if (builtin.name == name) {
      builtin.run(state, words, line);
      return true;
    }
  return std::find(std::begin(kQuiet), std::end(kQuiet), name) != std::end(kQuiet);
}

}  // namespace s2t
