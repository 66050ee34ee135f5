#include "analyzer/io/launch_file.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "analyzer/base/text.h"
#include "analyzer/io/json_cursor.h"
#include "analyzer/io/shell_text.h"

namespace s2t {
namespace {

void fill_in(LaunchFlag& flag, const ShellVariables& variables) {
  flag.conditional = flag.conditional || variables.conditional(flag.value);
  flag.value = variables.expand(flag.value);
  for (std::string& word : flag.more) word = variables.expand(word);
  if (flag.open()) flag.why_open = variables.why_open(flag.value);
}

bool is_flag(const std::string& word) {
  return word.starts_with("--") && word.size() > 2;
}

// The flag at words[i], and the words behind it.
LaunchFlag flag_at(const std::vector<ShellWord>& words, size_t i) {
  const std::string& word = words[i].text;
  const size_t equals = word.find('=');
  LaunchFlag flag;
  flag.name = word.substr(0, equals);
  flag.where = "line " + std::to_string(words[i].line);
  flag.conditional = words[i].conditional;
  if (equals != std::string::npos)
    flag.value = word.substr(equals + 1);
  else if (++i < words.size() && !words[i].text.starts_with("--"))
    flag.value = words[i].text;
  for (++i; i < words.size() && !words[i].begins && !words[i].text.starts_with("-"); ++i)
    if (equals == std::string::npos && !flag.value.empty()) flag.more.push_back(words[i].text);
  return flag;
}

// `--flag: value` of YAML is a flag too; false takes it away.
bool take_yaml(LaunchFlag& flag) {
  if (!flag.name.ends_with(":")) return true;
  flag.name.pop_back();
  const bool absent = flag.value == "false" || flag.value == "null";
  if (flag.value == "true") flag.value.clear();
  return !absent;
}

// `for NAME in a b c`: one of them.
void assign_in_loop(const std::vector<ShellWord>& words, size_t i, ShellVariables& variables) {
  if (words[i].text != "for" || i + 2 >= words.size() || words[i + 2].text != "in") return;
  for (size_t value = i + 3; value < words.size() && !words[value].begins; ++value)
    variables.assign(words[i + 1].text, variables.expand(words[value].text), words[i].line, true);
}

// NAME=value, NAME+=value.
void assign(const ShellWord& word, ShellVariables& variables) {
  const std::string name = assigned_name(word.text);
  const bool more = word.text[name.size()] == '+';
  const std::string value = variables.expand(word.text.substr(name.size() + (more ? 2 : 1)));
  if (more)
    variables.append(name, value, word.line, word.conditional);
  else
    variables.assign(name, value, word.line, word.conditional);
}

// `unset NAME`, `let NAME*=2`, `((NAME = NAME * 2))`: what arithmetic makes of it is left open.
void change(const std::vector<ShellWord>& words, size_t i, ShellVariables& variables) {
  const ShellWord& first = words[i];
  const bool unsets = first.text == "unset", named = unsets || first.text == "let";
  if (!named && !first.arithmetic) return;
  std::vector<std::string> rest;
  for (size_t k = i + (named ? 1 : 0); k < words.size() && (k == i || !words[k].begins); ++k)
    rest.push_back(words[k].text);
  if (unsets)
    for (const std::string& name : rest) variables.unset(name);
  else
    for (const std::string& name : changed_names(join(rest, " ")))
      variables.assign(name, fmt::format("$(({}))", join(rest, " ")), first.line,
                       first.conditional);
}

// What a flag says is what its variables are there; a variable that is set further down, for a
// function that is called later, has its value from there.
Launch read_script(const std::string& text) {
  Launch launch;
  ShellVariables variables;
  const std::vector<ShellWord> words = shell_words(text);
  for (size_t i = 0; i < words.size(); ++i) {
    const ShellWord& word = words[i];
    if (word.begins) assign_in_loop(words, i, variables);
    if (word.begins) change(words, i, variables);
    variables.assign_defaults(word.text, word.line);
    if (is_flag(word.text)) {
      LaunchFlag flag = flag_at(words, i);
      fill_in(flag, variables);
      if (take_yaml(flag)) launch.flags.push_back(std::move(flag));
    } else if (word.assigns) {
      assign(word, variables);
    }
  }
  for (LaunchFlag& flag : launch.flags) fill_in(flag, variables);
  launch.variables = variables.all();
  return launch;
}

// As it is written, but 2.0 is 2.
std::string number_of(const JsonCursor& at) {
  const double x = at.number().value_or(0);
  const bool whole = std::abs(x) < 1e15 && x == std::floor(x);
  return whole ? fmt::format("{:.0f}", x) : at.excerpt();
}

// A number, a word or true; false and null: the flag is absent.
bool read_value(const JsonCursor& at, std::string& value) {
  if (at.is(JsonKind::array) || at.is(JsonKind::object))
    at.wrong_type("a number, a word, true, false or null");
  if (at.is(JsonKind::string)) value = at.string().value_or("");
  if (value == "false" || value == "true") return std::exchange(value, "") == "true";
  if (at.is(JsonKind::number)) value = number_of(at);
  if (at.is(JsonKind::boolean)) return at.boolean().value_or(false);
  return !at.is(JsonKind::null);
}

// Words of a list: elements, or what blanks separate.
void read_words(const JsonCursor& at, LaunchFlag& flag) {
  std::vector<std::string> words;
  for (const JsonCursor& element : at.elements()) {
    words.emplace_back();
    read_value(element, words.back());
  }
  if (words.empty()) return;
  flag.value = words.front();
  flag.more.assign(words.begin() + 1, words.end());
}

Launch read_json(const JsonCursor& root) {
  Launch launch;
  ShellVariables variables;
  JsonObject object = root.object();
  object.ignore_rest();
  if (const JsonCursor at = object.optional("shell_vars")) {
    JsonObject members = at.object();
    for (const JsonCursor& member : members.members())
      if (std::string value; read_value(member, value))
        variables.assign(member.key(), value, 0, false);
  }
  launch.variables = variables.all();
  const JsonCursor args = object.optional("args");
  JsonObject flags = args ? args.object() : root.object();
  for (const JsonCursor& member : flags.members()) {
    const std::string key = member.key();
    if (key == "shell_vars") continue;
    LaunchFlag flag;
    flag.name = key.starts_with("--") ? key : "--" + key;
    flag.where = member.pointer();
    if (member.is(JsonKind::array))
      read_words(member, flag);
    else if (!read_value(member, flag.value))
      continue;
    fill_in(flag, variables);
    launch.flags.push_back(std::move(flag));
  }
  return launch;
}

}  // namespace

Launch read_launch(const std::string& text, Diagnostics& sink) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{') return read_script(text);
  const std::optional<JsonDocument> document = parse_json(text, sink);
  return document ? read_json(JsonCursor(*document, sink)) : Launch{};
}

}  // namespace s2t
