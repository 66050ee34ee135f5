#include "analyzer/io/launch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analyzer/base/text.h"
#include "analyzer/io/json_cursor.h"
#include "analyzer/io/launch_calls.h"
#include "analyzer/io/launch_toml.h"
#include "analyzer/io/shell/expansion.h"
#include "analyzer/io/shell/run.h"

namespace s2t {
namespace {

bool is_flag(const std::string& word) {
  return word.starts_with("--") && word.size() > 2;
}

// A flag whose name is as it is written, and not for a shell to make: `--${A/x/y}`, `--{a,b}`.
bool is_name(const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  return name.find_first_of("${}`'\"\\\n") == std::string::npos;
}

void take_value(LaunchFlag& flag, std::string value, const ShellText& of) {
  flag.value = std::move(value);
  flag.why_open = of.open();
  if (flag.value.find('$') != std::string::npos && !flag.open())
    flag.why_open = quoted(flag.value.substr(0, 80)) + " is known to the shell alone";
  flag.doubt = of.doubt();
  flag.conditional = flag.conditional || of.conditional();
}

// The flag at words[i], and the words behind it.
LaunchFlag flag_at(const std::vector<ShellText>& words, size_t i) {
  const ShellText& first = words[i];
  const std::string word = first.plain();
  const size_t equals = word.find('=');
  LaunchFlag flag;
  flag.name = word.substr(0, equals);
  flag.where = "line " + std::to_string(first.line());
  flag.conditional = first.conditional();
  if (equals != std::string::npos)
    take_value(flag, word.substr(equals + 1), first);
  else if (++i < words.size() && !words[i].plain().starts_with("--"))
    take_value(flag, words[i].plain(), words[i]);
  for (++i; i < words.size() && !words[i].plain().starts_with("-"); ++i)
    if (equals == std::string::npos && !flag.value.empty()) flag.more.push_back(words[i].plain());
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

// A list of flags may have the value of one on the next line.
void join_lines(std::vector<ShellCall>& calls) {
  for (size_t i = 1; i < calls.size(); ++i) {
    std::vector<ShellText>&before = calls[i - 1].words, &here = calls[i].words;
    if (!is_flag(before.front().plain()) || !is_flag(before.back().plain()) || here.size() != 1 ||
        is_flag(here[0].plain()))
      continue;
    before.push_back(here[0]);
    calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(i--));
  }
}

// A word of which only the shell of the day knows what flags it is.
bool may_be_flags(const ShellText& word) {
  return word.pieces().size() == 1 && word.pieces()[0].splits && !word.open().empty();
}

// Set by the file to more than what the script is given when it runs, or to nothing.
bool is_set(const ShellState& state, const std::string& name) {
  const std::vector<ShellValue>* values = state.find(name);
  return values && std::any_of(values->begin(), values->end(), [](const ShellValue& value) {
           return std::any_of(value.words.begin(), value.words.end(), [](const ShellText& word) {
             const std::string text = word.plain();
             return !text.empty() && text != "$*" && text != "$@";
           });
         });
}

void read_call(const ShellCall& call, int which, const ShellState& state, Launch& launch) {
  for (size_t i = 0; i < call.words.size(); ++i) {
    const ShellText& word = call.words[i];
    if (i > 0 && may_be_flags(word)) {
      const std::string before = call.words[i - 1].plain(), text = word.plain();
      const size_t name = std::min(text.find_first_not_of("${#!"), text.size());
      launch.unknown.push_back(
          {text, "line " + std::to_string(word.line()), word.open(), is_flag(before) ? before : "",
           is_set(state, text.substr(name, shell_name_end(text, name) - name))});
    }
    if (!is_flag(word.plain())) continue;
    if (!is_name(word.plain())) {
      launch.unknown.push_back(
          {word.plain(), "line " + std::to_string(word.line()), word.open(), "", false});
      continue;
    }
    LaunchFlag flag = flag_at(call.words, i);
    flag.conditional = flag.conditional || call.conditional;
    flag.launch = which;
    if (take_yaml(flag)) launch.flags.push_back(std::move(flag));
  }
}

// What Slurm allots: `#SBATCH --nodes=2`, `#SBATCH -N 2`. It gives way to flags of the launch, which
// stand before it.
void read_allotment(const std::string& text, Launch& launch) {
  constexpr std::pair<std::string_view, std::string_view> kKept[] = {
      {"--nodes", "--nodes"},
      {"-N", "--nodes"},
      {"--ntasks", "--ntasks"},
      {"-n", "--ntasks"},
      {"--ntasks-per-node", "--ntasks-per-node"},
      {"--gpus-per-node", "--gpus-per-node"}};
  int line = 0;
  for (std::string written : split(text, '\n')) {
    ++line;
    if (!written.starts_with("#SBATCH ")) continue;
    std::replace(written.begin(), written.end(), '=', ' ');
    const std::vector<std::string> words = words_of(written);
    for (const auto& [name, flag] : kKept)
      if (words.size() > 2 && words[1] == name) {
        LaunchFlag& allotted = launch.flags.emplace_back();
        allotted.name = flag;
        allotted.value = words[2];
        allotted.where = fmt::format("line {}", line);
      }
  }
}

Launch read_script(const std::string& text, Diagnostics& sink) {
  Launch launch;
  try {
    ShellRun run = run_shell(text);
    join_lines(run.calls);
    const LaunchCommands commands = launching(std::move(run.calls), text);
    for (const auto& [call, which] : commands.calls) {
      read_call(call, which, run.state, launch);
      for (auto& [name, value] : short_flags(call)) {
        LaunchFlag& flag = launch.flags.emplace_back();
        flag.name = name;
        flag.where = fmt::format("line {}", call.words[0].line());
        flag.launch = which;
        take_value(flag, value.plain(), value);
      }
      for (std::string& starter : starters_of(call)) launch.starters.insert(std::move(starter));
    }
    if (!launch.flags.empty()) read_allotment(text, launch);
    for (const auto& other : commands.left_out)
      launch.left_out.push_back(fmt::format("{} (line {})", other.text, other.line));
    for (const auto& other : commands.stray) {
      LaunchFlag& flag = launch.stray.emplace_back();
      flag.name = other.text;
      flag.where = fmt::format("line {}", other.line);
    }
    for (const auto& [name, values] : run.state.values())
      if (values.size() == 1 && !values[0].array && values[0].words[0].open().empty())
        launch.variables[name] = values[0].words[0].plain();
  } catch (const ShellError& e) {
    sink.add({"line " + std::to_string(e.line), e.what, "a script that can be followed",
              "Or give its flags alone.", "launch-syntax"});
  }
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

// What DeepSpeed's own file says, as flags.
struct Setting {
  std::string_view path, flag;
  bool on = false;  // the flag has no value: it is there if this is true
};
constexpr Setting kDeepspeed[] = {
    {"zero_optimization.stage", "--zero-stage"},
    {"train_micro_batch_size_per_gpu", "--micro-batch-size"},
    {"train_batch_size", "--global-batch-size"},
    {"gradient_accumulation_steps", "--gradient_accumulation_steps"},
    {"bf16.enabled", "--bf16", true},
    {"bfloat16.enabled", "--bf16", true},
    {"fp16.enabled", "--fp16", true},
    {"communication_data_type", "--communication_data_type"},
    {"zero_optimization.reduce_bucket_size", "--reduce_bucket_size"},
    {"zero_optimization.stage3_param_persistence_threshold", "--param_persistence_threshold"},
    {"zero_optimization.zero_hpz_partition_size", "--zero_hpz_partition_size"},
    {"zero_optimization.mics_shard_size", "--mics_shard_size"},
    {"zero_optimization.zero_quantized_weights", "--zero_quantized_weights", true},
    {"zero_optimization.zero_quantized_gradients", "--zero_quantized_gradients", true},
};

bool is_deepspeed(JsonObject& object) {
  for (const char* key :
       {"zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu"})
    if (object.optional(key).present()) return true;
  return false;
}

// "auto" leaves a value to who launches.
Launch read_deepspeed(const JsonCursor& root) {
  Launch launch;
  launch.settings = true;
  for (const Setting& setting : kDeepspeed) {
    JsonCursor at = root;
    for (const std::string& key : split(setting.path, '.')) {
      JsonObject object = at.object();
      object.ignore_rest();
      at = object.optional(key);
      if (!at) break;
    }
    LaunchFlag flag;
    if (!at || !read_value(at, flag.value)) continue;
    flag.name = setting.flag;
    if (flag.value == "auto") {
      flag.why_open = "\"auto\" is left to who launches";
      if (setting.on) flag.name = "--dtype";
    }
    flag.where = at.pointer();
    flag.written = setting.path;
    if (setting.on && !flag.open()) flag.value.clear();
    launch.flags.push_back(std::move(flag));
  }
  return launch;
}

Launch read_json(const JsonCursor& root) {
  Launch launch;
  ShellState variables;
  JsonObject object = root.object();
  object.ignore_rest();
  if (is_deepspeed(object)) return read_deepspeed(root);
  if (const JsonCursor at = object.optional("shell_vars")) {
    JsonObject members = at.object();
    for (const JsonCursor& member : members.members())
      if (std::string value; read_value(member, value)) {
        ShellValue set;
        set.words.push_back(expand_text(value, variables));
        launch.variables[member.key()] = set.words[0].plain();
        variables.set(member.key(), std::move(set));
      }
  }
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
    const ShellText value = expand_text(flag.value, variables);
    take_value(flag, value.plain(), value);
    for (std::string& word : flag.more) word = expand_text(word, variables).plain();
    launch.flags.push_back(std::move(flag));
  }
  return launch;
}

}  // namespace

Launch read_launch(const std::string& text, Diagnostics& sink) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (is_toml(text)) return read_toml(text, sink);
  if (first == std::string::npos || text[first] != '{') return read_script(text, sink);
  const std::optional<JsonDocument> document = parse_json(text, sink);
  return document ? read_json(JsonCursor(*document, sink)) : Launch{};
}

}  // namespace s2t
