// The options that say how a published config is split and under which
// framework, in one place, and the model that a command works on: a model file,
// or a config with such a plan.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/cli/command.h"
#include "analyzer/graph/model.h"
#include "analyzer/io/profiles.h"

namespace s2t {

// `own` options of a command, then those of plans.
std::vector<OptionDef> with_plan_options(std::span<const OptionDef> own);

// The plan's part of a command line, word by word, for a process that reads the same file again.
std::vector<std::string> plan_words(const Arguments& arguments);

// The model that the first operand names. Throws UserError with all that is
// wrong.
Model load_operand(const Arguments& arguments);

// The same in two steps, for who wants several models of one text: with the profile as --set and a
// launch file change it, of a config. Files are read once: a pipe has its text only then.
struct Operand {
  Model model;
  std::optional<Profile> profile;
};
struct LaunchText {
  std::optional<std::string> text;
  Diagnostics errors;  // why there is none
};
struct OperandText {
  std::string model;
  std::vector<LaunchText> launches;  // of every --args-file
};
OperandText read_operand(const Arguments& arguments);
Operand load_text(const Arguments& arguments, const OperandText& text);

}  // namespace s2t
