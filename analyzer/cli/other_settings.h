// The switches that could be set otherwise: those of a model file, and those of the profile of a
// config; and the step that follows from each other setting, by analyzing it.
//
// Not known here: which of them matter to a question (report/otherwise.h).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "analyzer/cli/plan_options.h"
#include "analyzer/report/report.h"

namespace s2t {

struct ModelSwitch {
  std::string_view name;
  std::string_view values;  // words, the default first
  std::string_view meaning;
  size_t (*get)(const Model&);  // place of its value among the words
  void (*set)(Model&, size_t value);
};
std::span<const ModelSwitch> model_switches();

// One at a time, in the order of `list switches`; settings that the model or the plan cannot have
// are left out, and so are numbers and orders, which could be anything.
void for_each_other_setting(const Arguments& arguments, const OperandText& text,
                            const Operand& operand,
                            const std::function<void(const Setting&, const Program&)>& visit);

}  // namespace s2t
