#include "analyzer/io/launch_toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <sstream>
#include <string_view>
#include <utility>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

// job_config.py
constexpr std::pair<std::string_view, std::string_view> kDefaults[] = {
    {"--training.local_batch_size", "8"},
    {"--training.seq_len", "2048"},
    {"--activation_checkpoint.mode", "selective"},
    {"--activation_checkpoint.selective_ac_option", "2"},
};

bool is_section(const std::string& line) {
  static const std::regex kSection(R"(\[[A-Za-z0-9_.]+\])");
  return line.size() < 256 && std::regex_match(line, kSection);
}

// Without the comment behind it; a # in quotes is none.
std::string said(const std::string& line) {
  char quote = '\0';
  size_t end = line.size();
  for (size_t i = 0; i < line.size() && end == line.size(); ++i) {
    if (quote == '\0' && line[i] == '#') end = i;
    if (line[i] == '"' || line[i] == '\'')
      quote = quote == '\0' ? line[i] : quote == line[i] ? '\0' : quote;
  }
  const size_t first = line.find_first_not_of(" \t\r");
  if (first >= end) return "";
  return line.substr(first, line.find_last_not_of(" \t\r", end - 1) + 1 - first);
}

std::string without_quotes(std::string text) {
  if (text.size() > 1 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0])
    text = text.substr(1, text.size() - 2);
  return text;
}

// [] and "" say nothing; of a list the words are told apart by blanks.
std::string value_of(const std::string& text) {
  if (!text.starts_with("[")) return without_quotes(text);
  std::vector<std::string> words;
  for (const std::string& word : split(text.substr(1, text.size() - 2), ','))
    if (std::string one = without_quotes(said(word)); !one.empty()) words.push_back(std::move(one));
  return join(words, " ");
}

// Lines that say something, without comments; a list in brackets is one of them.
class Lines {
 public:
  explicit Lines(const std::string& text) : lines_(text) {}

  std::optional<std::string> next() {
    std::string all;
    while (all.empty() && read()) all = line_;
    number_ = count_;
    const size_t equals = all.find('=');
    const bool list = equals != std::string::npos && said(all.substr(equals + 1)).starts_with("[");
    while (list && !all.ends_with("]") && read()) all += " " + line_;
    return all.empty() ? std::nullopt : std::optional(all);
  }
  int number() const { return number_; }

 private:
  bool read() {
    if (!std::getline(lines_, line_)) return false;
    ++count_;
    line_ = said(line_);
    return true;
  }

  std::istringstream lines_;
  std::string line_;
  int count_ = 0, number_ = 0;
};

LaunchFlag setting(std::string name, std::string value, std::string where) {
  LaunchFlag flag;
  flag.name = std::move(name);
  flag.value = std::move(value);
  flag.where = std::move(where);
  flag.gives_way = true;
  return flag;
}

void add_defaults(Launch& launch) {
  const auto states = [&](std::string_view name) {
    return std::any_of(launch.flags.begin(), launch.flags.end(),
                       [&](const LaunchFlag& flag) { return flag.name == name; });
  };
  for (const auto& [name, value] : kDefaults) {
    const bool old = name == "--training.local_batch_size" && states("--training.batch_size");
    if (!states(name) && !old)
      launch.flags.push_back(
          setting(std::string(name), std::string(value), "torchtitan's default"));
  }
}

}  // namespace

bool is_toml(const std::string& text) {
  const std::optional<std::string> line = Lines(text).next();
  return line && is_section(*line);
}

Launch read_toml(const std::string& text, Diagnostics& sink) {
  Launch launch;
  launch.settings = true;
  Lines lines(text);
  std::string section;
  while (const std::optional<std::string> line = lines.next()) {
    if (is_section(*line)) {
      section = line->substr(1, line->size() - 2);
      continue;
    }
    const size_t equals = line->find('=');
    const std::string key = said(line->substr(0, equals));
    const std::string where = fmt::format("line {}", lines.number());
    if (equals == std::string::npos || key.find_first_of(" \"'[]") != std::string::npos) {
      sink.add({where, quoted(line->substr(0, 80)), "KEY = VALUE", "", "launch-syntax"});
      return launch;
    }
    const std::string value = value_of(said(line->substr(equals + 1)));
    if (!value.empty() && value != "false")
      launch.flags.push_back(setting(fmt::format("--{}.{}", section, key), value, where));
  }
  add_defaults(launch);
  return launch;
}

}  // namespace s2t
