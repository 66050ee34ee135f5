#include "analyzer/cli/parse.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/text.h"
#include "analyzer/cli/help.h"

namespace s2t {
namespace {

constexpr std::string_view kProgram = "shape2trace";

constexpr OptionDef kCommon[] = {
    {"--format", "F", "what to print; the first of the formats below is the default"},
    {"--output", "FILE", "where to, all or nothing; also -o; default: standard output", "-o"},
    {"--color", "WHEN", "always, never or auto (on a terminal, unless NO_COLOR is set)"},
    {"--help", "", "this text", "-h"},
};

[[noreturn]] void refuse(std::string where, std::string found, std::string expected,
                         std::string advice, std::string slug) {
  throw UserError(std::string(kProgram), {{std::move(where), std::move(found), std::move(expected),
                                           std::move(advice), std::move(slug)}});
}

std::string or_help(const std::string& advice, const std::string& command = "") {
  if (!advice.empty()) return advice;
  return "See shape2trace " + (command.empty() ? "" : command + " ") + "--help.";
}

const Command& find_command(const CommandTable& table, const std::string& name) {
  std::vector<std::string> names;
  for (const Command& c : table) {
    if (c.name == name) return c;
    names.emplace_back(c.name);
  }
  refuse("", "unknown command " + s2t::quoted(name), "one of " + quoted_list(names, 16),
         or_help(did_you_mean(name, names)), "unknown-command");
}

// All options of a command, those of its row first.
std::vector<OptionDef> options_of(const Command& command) {
  std::vector<OptionDef> all(command.options.begin(), command.options.end());
  all.insert(all.end(), std::begin(kCommon), std::end(kCommon));
  return all;
}

// The option of which a spelling begins as `flag` does and has all its words: --tensor-parallel is
// --tp, of --tensor-model-parallel-size.
std::string by_words(const Command& command, const std::string& flag) {
  const std::vector<std::string> words = split(flag, '-');
  if (words.size() < 4 || words[2].empty()) return "";  // "", "", and two more
  for (const OptionDef& o : options_of(command))
    for (const std::string& also : words_of(o.also)) {
      const std::vector<std::string> has = split(also, '-');
      const bool all = std::all_of(words.begin(), words.end(), [&](const std::string& w) {
        return std::find(has.begin(), has.end(), w) != has.end();
      });
      if (all && has[2] == words[2])
        return fmt::format("Did you mean {}?", s2t::quoted(std::string(o.flag)));
    }
  return "";
}

void refuse_unknown_option(const Command& command, const std::string& word) {
  std::vector<std::string> flags, spellings;
  for (const OptionDef& o : options_of(command)) flags.emplace_back(o.flag);
  spellings = flags;
  for (const OptionDef& o : options_of(command))
    for (std::string& also : words_of(o.also)) spellings.push_back(std::move(also));
  const std::string flag = word.substr(0, word.find('='));
  std::string meant = did_you_mean(flag, spellings);
  if (meant.empty()) meant = by_words(command, flag);
  refuse(std::string(command.name), "unknown option " + s2t::quoted(flag),
         "one of " + quoted_list(flags, 64), or_help(meant, std::string(command.name)),
         "unknown-option");
}

// Only sorts words into options and operands; CLI11's own help and errors stay unused.
class Splitter {
 public:
  explicit Splitter(const Command& command) : command_(command) {
    app_.set_help_flag();
    app_.allow_extras();
    for (const OptionDef& o : options_of(command)) {
      std::string names(o.flag);
      for (const std::string& word : words_of(o.also)) names += "," + word;
      Slot& slot = slots_[std::string(o.flag)];
      slot.option = o.value.empty() ? app_.add_flag(names) : app_.add_option(names, slot.value);
      slot.many = o.many;
      if (!o.value.empty()) slot.option->join('\n');
    }
  }

  void split(std::vector<std::string> words, Arguments& arguments) {
    refuse_values_of_switches(words);
    try {
      std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
      app_.parse(words);
    } catch (const CLI::ParseError& e) {  // "--rank: 1 required TEXT missing"
      const std::string_view what = e.what();
      const std::string flag(what.substr(0, what.find(':')));
      refuse(std::string(command_.name),
             slots_.contains(flag) ? "no value follows " + flag : e.what(), "",
             or_help("", std::string(command_.name)), "bad-option");
    }
    for (const auto& [flag, slot] : slots_)
      if (slot.option->count() > 0) arguments.options[flag] = value_of(flag, slot);
    bool only_operands = false;
    for (const std::string& word : app_.remaining()) {
      if (word == "--" && !only_operands)
        only_operands = true;
      else if (!only_operands && word.size() > 1 && word[0] == '-')
        refuse_unknown_option(command_, word);
      else
        arguments.operands.push_back(word);
    }
  }

 private:
  // CLI11 would take `--expand=no` for `--expand`, and the word behind `--seq=` for its value.
  void refuse_values_of_switches(const std::vector<std::string>& words) const {
    for (const OptionDef& o : options_of(command_))
      for (const std::string& word : words)
        if (!o.value.empty() && word == std::string(o.flag) + "=")
          refuse(std::string(command_.name), "no value follows " + word, "",
                 or_help("", std::string(command_.name)), "bad-option");
        else if (o.value.empty() && word.starts_with(std::string(o.flag) + "="))
          refuse(std::string(command_.name), std::string(o.flag) + " takes no value", "", "",
                 "bad-option");
  }

  struct Slot {
    CLI::Option* option = nullptr;
    std::string value;
    bool many = false;
  };

  // One thing may be said twice, but not differently.
  std::string value_of(const std::string& flag, const Slot& slot) const {
    const std::vector<std::string>& all = slot.option->results();
    if (slot.many || slot.value.empty() || all.size() < 2) return slot.value;
    for (const std::string& value : all)
      if (value != all.front())
        refuse(std::string(command_.name),
               fmt::format("{} is given twice, as {} and as {}", flag, s2t::quoted(all.front()),
                           s2t::quoted(value)),
               "one value", "", "contradiction");
    return all.front();
  }

  const Command& command_;
  CLI::App app_;
  std::map<std::string, Slot> slots_;
};

void check_operands(const Command& command, const std::vector<std::string>& operands) {
  const std::string name(command.name);
  const bool many = !command.operands.empty() && command.operands.back().ends_with("...");
  if (operands.size() < command.operands.size()) {
    const std::string_view missing = command.operands[operands.size()];
    refuse(name, fmt::format("no {} is given", missing.substr(0, missing.find("..."))), "",
           "For example: " + first_example(command) + ".", "missing-operand");
  }
  if (operands.size() > command.operands.size() && !many)
    refuse(name, "one operand too many, " + s2t::quoted(operands[command.operands.size()]), "",
           or_help("", name), "extra-operand");
}

std::string checked_format(const Command& command, const Arguments& arguments) {
  const std::vector<std::string> formats = command.formats();
  if (!arguments.has("--format")) return formats.front();
  const std::string format = arguments.text("--format");
  if (std::find(formats.begin(), formats.end(), format) != formats.end()) return format;
  refuse("--format", "unknown format " + s2t::quoted(format), "one of " + quoted_list(formats),
         did_you_mean(format, formats), "unknown-format");
}

std::string checked_color(const Arguments& arguments) {
  if (!arguments.has("--color")) return "auto";
  const std::vector<std::string> words{"auto", "always", "never"};
  const std::string when = arguments.text("--color");
  if (std::find(words.begin(), words.end(), when) == words.end())
    refuse("--color", "unknown word " + s2t::quoted(when), "one of " + quoted_list(words),
           did_you_mean(when, words), "bad-option");
  return when;
}

}  // namespace

std::span<const OptionDef> common_options() {
  return kCommon;
}

std::string Arguments::text(std::string_view flag) const {
  const auto at = options.find(std::string(flag));
  return at == options.end() ? "" : at->second;
}

std::vector<std::string> Arguments::lines(std::string_view flag) const {
  return has(flag) ? split(text(flag), '\n') : std::vector<std::string>{};
}

std::optional<int64_t> Arguments::integer(std::string_view flag, int64_t least,
                                          int64_t most) const {
  if (!has(flag)) return std::nullopt;
  const std::string word = text(flag);
  char* end = nullptr;
  errno = 0;
  const int64_t n = std::strtoll(word.c_str(), &end, 10);
  const bool whole = !word.empty() && *end == '\0' && errno == 0 && word[0] != ' ';
  if (!whole || n < least || n > most)
    refuse(std::string(flag),
           s2t::quoted(word) + (whole ? " is out of range" : " is no whole number"),
           fmt::format("a whole number, {} {}", least,
                       most == INT32_MAX ? "or more" : fmt::format("to {}", most)),
           "", "out-of-range");
  return n;
}

bool wants_color(const std::string& when, bool to_file) {
  if (when != "auto") return when == "always";
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool refused = (no_color && *no_color) || (term && std::string_view(term) == "dumb");
  return !to_file && !refused && isatty(STDOUT_FILENO) == 1;
}

Invocation parse_command_line(const CommandTable& table, const std::vector<std::string>& words) {
  Invocation result;
  if (words.empty())
    refuse("", "no command is given", "", "See shape2trace --help.", "missing-operand");
  const std::string& first = words.front();
  if (first == "--version") {
    result.version = true;
    return result;
  }
  if (first == "--help" || first == "-h" || first == "help") {
    result.help = true;
    if (first == "help" && words.size() > 1) result.command = &find_command(table, words[1]);
    return result;
  }
  result.command = &find_command(table, first);
  Arguments& arguments = result.arguments;
  Splitter(*result.command).split({words.begin() + 1, words.end()}, arguments);
  if (arguments.has("--help")) {
    result.help = true;
    return result;
  }
  check_operands(*result.command, arguments.operands);
  arguments.format = checked_format(*result.command, arguments);
  if (arguments.has("--output")) {
    result.output = arguments.text("--output");
    if (result.output.empty()) refuse("--output", "an empty file name", "a path", "", "bad-option");
  }
  arguments.color = wants_color(checked_color(arguments), !result.output.empty());
  return result;
}

}  // namespace s2t
