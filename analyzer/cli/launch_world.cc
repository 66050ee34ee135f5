#include "analyzer/cli/launch_world.h"

#include <algorithm>
#include <vector>

#include "analyzer/base/text.h"
#include "analyzer/cli/launch_words.h"

namespace s2t {
namespace {

using Count = std::optional<std::pair<int64_t, std::string>>;

constexpr std::string_view kHosts = "--hostfile --include";
constexpr std::string_view kRanksOfANodeVariables = "GPUS_PER_NODE NGPU";
constexpr std::string_view kNodesVariables = "NUM_NODES NNODES";
constexpr int64_t kMost = 65'536;  // nodes, and ranks of each

const LaunchFlag* find(const Launch& launch, std::string_view flags) {
  for (const LaunchFlag& flag : launch.flags)
    if (among(flag.name, flags)) return &flag;
  return nullptr;
}

Count count_of(const Launch& launch, std::string_view flags) {
  for (const LaunchFlag& flag : launch.flags)
    if (among(flag.name, flags))
      if (const auto n = whole(flag.value); n && *n < kMost)
        return std::pair(*n, flag.where + ": " + flag.shown());
  return std::nullopt;
}

Count count_of_variable(const Launch& launch, std::string_view variables) {
  for (const auto& [name, value] : launch.variables)
    if (among(name, variables))
      if (const auto n = whole(value); n && *n < kMost) return std::pair(*n, name);
  return std::nullopt;
}

bool starts_by(const Launch& launch, std::string_view programs) {
  return std::any_of(launch.starters.begin(), launch.starters.end(),
                     [&](const std::string& s) { return among(s, programs); });
}

// "$SLURM_NNODES": what Slurm sets it to is what is allotted.
bool left_to_slurm(const LaunchFlag* flag) {
  return flag && flag->open() && flag->value.find("SLURM") != std::string::npos;
}

// localhost:0,1@other:0,1: all hosts must name their GPUs.
Count included(const Launch& launch) {
  const LaunchFlag* flag = find(launch, "--include");
  if (!flag || flag->open() || !starts_by(launch, "deepspeed")) return std::nullopt;
  int64_t n = 0;
  for (const std::string& host : split(flag->value, '@')) {
    const size_t colon = host.find(':');
    if (colon == std::string::npos) return std::nullopt;
    for (const std::string& gpu : split(host.substr(colon + 1), ',')) {
      if (!whole(gpu)) return std::nullopt;
      ++n;
    }
  }
  return std::pair(n, flag->where + ": " + flag->shown());
}

Count product(const Count& ranks, const Count& nodes) {
  return std::pair(ranks->first * nodes->first, ranks->second);
}

// Of starters that start every rank themselves.
Count allotted(const Launch& launch) {
  if (starts_by(launch, "accelerate")) return count_of(launch, "--num_processes --num-processes");
  if (!starts_by(launch, "srun mpirun mpiexec mpiexec.hydra") ||
      starts_by(launch, "torchrun deepspeed torch.distributed.run torch.distributed.launch"))
    return std::nullopt;
  if (const auto all = count_of(launch, "--np --ntasks")) return all;
  const Count ranks = count_of(launch, "--ntasks-per-node");
  const Count nodes = count_of(launch, "--nodes");
  if (!ranks || (!nodes && find(launch, "--nodes"))) return std::nullopt;
  return nodes ? product(ranks, nodes) : ranks;
}

}  // namespace

std::optional<std::pair<int64_t, std::string>> ranks_of_job(const Launch& launch) {
  const LaunchFlag* ranks_flag = find(launch, kRanksOfANode);
  const LaunchFlag* nodes_flag = find(launch, kNodes);
  Count ranks = count_of(launch, kRanksOfANode), nodes = count_of(launch, kNodes);
  if (!ranks_flag)
    for (const Count& all : {included(launch), allotted(launch)})
      if (all) return all;
  if (!ranks && left_to_slurm(ranks_flag)) ranks = count_of(launch, "--gpus-per-node");
  if (!nodes && left_to_slurm(nodes_flag)) nodes = count_of(launch, "--nodes");
  if (!ranks) ranks = count_of_variable(launch, kRanksOfANodeVariables);
  if (!nodes) nodes = count_of_variable(launch, kNodesVariables);
  // The default of torchrun and, without a file of hosts, of deepspeed.
  if (ranks_flag && !nodes && !nodes_flag && !find(launch, kHosts)) nodes = std::pair(1, "");
  return ranks && nodes ? product(ranks, nodes) : std::nullopt;
}

}  // namespace s2t
