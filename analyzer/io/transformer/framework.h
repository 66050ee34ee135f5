// What a framework makes of a plan: what it decides by itself, what it cannot run, and how it
// shards and synchronises parameters. All of it follows from the profile's switches.
//
// Not known here: ops.
#pragma once

#include <functional>
#include <string>

#include "analyzer/base/diagnostics.h"
#include "analyzer/io/transformer/builder.h"

namespace s2t {

// The plan with what the framework decides: sequence parallelism, layers of stages, the schedule.
Plan as_framework_runs(Plan plan, const Architecture& architecture, const Profile& profile);

// What the framework cannot do of a plan, each with what would fit.
void check_framework(const Architecture& architecture, const Plan& plan, const Profile& profile,
                     Diagnostics& sink);

// Whether data-parallel ranks outnumber the experts, so that FSDP cuts each of them.
bool experts_cut_along_rows(const Architecture& architecture, const Plan& plan);

// Adds what is wrong with a plan: the flag, what was found and expected, advice.
using Refuse = std::function<void(bool wrong, std::string flag, std::string found,
                                  std::string expected, std::string advice)>;
// `check_framework` (limits.cc) for torchtitan and DeepSpeed alone: torch_limits.cc.
void check_torchtitan(const Architecture& a, const Plan& p, const Profile& profile,
                      const Refuse& refuse);
void check_deepspeed(const Architecture& a, const Plan& p, const Profile& profile,
                     const Refuse& refuse);

// Gradient synchronisation, and which parameters are gathered together. Afterwards, when all
// parameters are known.
void set_synchronisation(ModelBuilder& b);

// What Megatron registers, in its order. `experts_apart`: each expert of a rank has parameters of its
// own on the first stage.
std::vector<RegisteredDecl> registered_parameters(const ModelBuilder& b, bool experts_apart);

}  // namespace s2t
