#include "analyzer/cli/help.h"

#include <algorithm>

#include "analyzer/base/text.h"
#include "analyzer/report/table.h"

namespace s2t {
namespace {

std::string usage(const Command& command) {
  std::string text(command.name);
  for (const std::string_view operand : command.operands) text += " " + std::string(operand);
  return text;
}

void print_options(std::span<const OptionDef> options, Table& table) {
  for (const OptionDef& o : options)
    table.row({std::string(o.flag) + (o.value.empty() ? "" : " " + std::string(o.value)),
               std::string(o.help)});
}

constexpr std::string_view kModel =
    "MODEL is a model file (docs/model-file.md), or - for standard input.\n";
constexpr std::string_view kConfig =
    "With --profile it may also be a Hugging Face config.json (docs/profiles.md).\n";
constexpr std::string_view kEvent =
    "EVENT is an id that predict prints: 12, or p0 for a pruned one.\n";

void print_operands(const Command& command, std::ostream& out) {
  if (command.operands.empty() || command.operands.front() != "MODEL") return;
  const bool config = std::any_of(command.options.begin(), command.options.end(),
                                  [](const OptionDef& o) { return o.flag == "--profile"; });
  out << "\n" << kModel << (config ? kConfig : "") << (command.operands.size() > 1 ? kEvent : "");
}

}  // namespace

void print_help(const CommandTable& table, std::ostream& out) {
  out << "shape2trace predicts every collective of a training step, and says why.\n\n"
         "Usage: shape2trace COMMAND [options]\n\n";
  Table commands({{""}, {"", Column::Kind::wrapped}});
  for (const Command& c : table) commands.row({usage(c), std::string(c.summary)});
  commands.print(out);
  out << "\n"
      << kModel << kConfig << kEvent
      << "\nExit codes: 0 as predicted, 1 a mismatch was found, 2 a user error, 3 a "
         "fault of ours,\n            77 something this machine lacks.\n"
         "\nFor example:\n  "
      << first_example(table.front()) << "\n  shape2trace COMMAND --help\n";
}

void print_help(const Command& command, std::ostream& out) {
  out << "Usage: shape2trace " << usage(command) << " [options]\n\n" << command.summary << "\n\n";
  Table options({{""}, {"", Column::Kind::wrapped}});
  print_options(command.options, options);
  print_options(common_options(), options);
  options.print(out);
  out << "\nFormats: " << join(command.formats(), " ") << "\n";
  print_operands(command, out);
  out << "\nFor example:\n  " << command.example << "\n";
}

}  // namespace s2t
