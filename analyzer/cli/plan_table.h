// The options that make a plan, as a table: what each is called here and in Megatron, and how its
// value is read.
#pragma once

#include <span>
#include <string_view>

#include "analyzer/cli/command.h"
#include "analyzer/io/plan.h"

namespace s2t {

struct PlanOption {
  OptionDef def;
  void (*read)(const Arguments& arguments, std::string_view flag, Plan& plan);  // throws UserError
  std::string_view switches = {};  // of profiles that say the same, separated by spaces
};

std::span<const PlanOption> plan_options();

}  // namespace s2t
