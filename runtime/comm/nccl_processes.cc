#include "runtime/comm/nccl_processes.h"

#include "runtime/comm/module.h"
#include "runtime/comm/processes.h"

namespace s2t {
namespace {

constexpr const char* kModule = "s2t_nccl.so";

// One child per rank, started afresh, so that no state of CUDA is inherited.
std::vector<ChildCommand> commands(const RunOptions& options) {
  std::vector<ChildCommand> result;
  for (int r = 0; r < options.world_size; ++r) {
    ChildCommand c;
    c.name = "rank " + std::to_string(r);
    c.arguments = {this_program()};
    c.arguments.insert(c.arguments.end(), options.arguments.begin(), options.arguments.end());
    c.environment = options.environment;
    c.environment[kRankVariable] = std::to_string(r);
    c.environment[kSizeVariable] = std::to_string(options.world_size);
    result.push_back(std::move(c));
  }
  return result;
}

}  // namespace

Probe probe_nccl() {
  return probe_module(kModule);
}

RunResult run_nccl(const RunOptions& options, const RankBody& body) {
  return run_processes({kModule, commands, [](Rank r) { return r.at(); }, nullptr}, options, body);
}

}  // namespace s2t
