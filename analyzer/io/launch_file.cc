#include "analyzer/io/launch_file.h"

#include <cctype>
#include <charconv>
#include <utility>

#include "analyzer/io/json_cursor.h"

namespace s2t {
namespace {

using Variables = std::map<std::string, std::string>;
constexpr int kDeepest = 16;  // variables that name variables

bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

std::string expand(const std::string& text, const Variables& variables, int depth = 0);

// "8*16" -> 128; "" unless it is a product of whole numbers.
std::string product(const std::string& text) {
  int64_t total = 1;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int64_t n = 0;
    const auto [next, error] = std::from_chars(at, end, n);
    if (error != std::errc{} || n < 0 || (n > 0 && total > INT32_MAX / n)) return "";
    total *= n;
    if (next == end) return std::to_string(total);
    if (*next != '*') return "";
    at = next + 1;
  }
}

// What stands behind a `$` at text[at]; moves `at` behind it. As written if nobody set it.
std::string expand_one(const std::string& text, size_t& at, const Variables& variables, int depth) {
  const size_t start = at;
  if (text.compare(at, 3, "$((") == 0) {
    const size_t end = text.find("))", at);
    if (end == std::string::npos) return text.substr(std::exchange(at, text.size()));
    const std::string value = product(expand(text.substr(at + 3, end - at - 3), variables, depth));
    at = end + 2;
    return value.empty() ? text.substr(start, at - start) : value;
  }
  std::string name, otherwise;
  if (at + 1 < text.size() && text[at + 1] == '{') {
    const size_t end = std::min(text.find('}', at), text.size());
    name = text.substr(at + 2, end - at - 2);
    at = std::min(end + 1, text.size());
    if (const size_t colon = name.find(":-"); colon != std::string::npos) {
      otherwise = name.substr(colon + 2);
      name.resize(colon);
    }
  } else {
    for (++at; at < text.size() && in_name(text[at]);) ++at;
    name = text.substr(start + 1, at - start - 1);
  }
  const auto it = variables.find(name);
  if (it != variables.end()) return expand(it->second, variables, depth + 1);
  if (!otherwise.empty()) return expand(otherwise, variables, depth + 1);
  return text.substr(start, at - start);
}

std::string expand(const std::string& text, const Variables& variables, int depth) {
  if (depth > kDeepest) return text;
  std::string out;
  for (size_t at = 0; at < text.size();)
    if (text[at] == '$')
      out += expand_one(text, at, variables, depth);
    else
      out += text[at++];
  return out;
}

struct ScriptWord {
  std::string text;
  int line = 1;
};

// Words of a script. Quotes and brackets only separate: flags stand in arrays and strings alike.
// Inside ${...} and $((...)) nothing separates.
std::vector<ScriptWord> words_of(const std::string& text) {
  std::vector<ScriptWord> words;
  std::string word;
  int line = 1, open = 0;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back({std::exchange(word, {}), line});
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') open = 0;  // what was never closed
    if (c == '$' && i + 1 < text.size() && (text[i + 1] == '{' || text[i + 1] == '(')) ++open;
    if (open > 0) {
      if (!std::isspace(static_cast<unsigned char>(c)) && c != '"' && c != '\'') word += c;
      const bool closed = c == '}' || (c == ')' && word.ends_with("))")) ||
                          (c == ')' && word.find("$((") == std::string::npos);
      if (closed) --open;
    } else if (c == '#' && word.empty()) {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (std::isspace(static_cast<unsigned char>(c)) ||
               std::string("\"'`()\\;|&").find(c) != std::string::npos) {
      end_word();
    } else {
      word += c;
    }
    if (c == '\n') {
      end_word();
      ++line;
    }
  }
  end_word();
  return words;
}

// NAME=value
bool assigns(const std::string& word, std::string& name, std::string& value) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || word[0] == '-') return false;
  for (size_t i = 0; i < equals; ++i)
    if (!in_name(word[i])) return false;
  name = word.substr(0, equals);
  value = word.substr(equals + 1);
  return true;
}

Launch read_script(const std::string& text) {
  Launch launch;
  std::vector<ScriptWord> words = words_of(text);
  std::string name, value;
  for (size_t i = 0; i < words.size(); ++i) {
    if (!assigns(words[i].text, name, value)) continue;
    // NAME="value" is two words here, NAME=(--flag ...) many: only the former is a value.
    const bool next_is_value = value.empty() && i + 1 < words.size() &&
                               words[i + 1].line == words[i].line && words[i + 1].text[0] != '-';
    launch.variables[name] = next_is_value ? words[i + 1].text : value;
  }
  for (auto& [key, text_of] : launch.variables) text_of = expand(text_of, launch.variables);
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    if (!word.starts_with("--") || word.size() == 2) continue;
    const size_t equals = word.find('=');
    LaunchFlag flag{word.substr(0, equals), "", "line " + std::to_string(words[i].line)};
    if (equals != std::string::npos)
      flag.value = word.substr(equals + 1);
    else if (i + 1 < words.size() && !words[i + 1].text.starts_with("--"))
      flag.value = words[i + 1].text;
    flag.value = expand(flag.value, launch.variables);
    launch.flags.push_back(std::move(flag));
  }
  return launch;
}

// A number, a word or true; false and null: the flag is absent.
bool read_value(const JsonCursor& at, std::string& value) {
  if (at.is(JsonKind::string)) value = at.string().value_or("");
  if (at.is(JsonKind::number)) value = at.excerpt();
  if (at.is(JsonKind::boolean)) return at.boolean().value_or(false);
  return !at.is(JsonKind::null);
}

Launch read_json(const JsonCursor& root) {
  Launch launch;
  JsonObject object = root.object();
  object.ignore_rest();
  if (const JsonCursor at = object.optional("shell_vars")) {
    JsonObject variables = at.object();
    for (const JsonCursor& member : variables.members())
      read_value(member, launch.variables[member.key()]);
  }
  for (auto& [key, value] : launch.variables) value = expand(value, launch.variables);
  const JsonCursor args = object.optional("args");
  JsonObject flags = args ? args.object() : root.object();
  for (const JsonCursor& member : flags.members()) {
    const std::string key = member.key();
    LaunchFlag flag{key.starts_with("--") ? key : "--" + key, "", member.pointer()};
    if (!read_value(member, flag.value)) continue;
    flag.value = expand(flag.value, launch.variables);
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
