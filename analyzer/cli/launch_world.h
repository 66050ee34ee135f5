// How many ranks a launch starts, by who starts them: torchrun and deepspeed (ranks of a node times
// nodes), accelerate, mpirun and srun (all of them, or as #SBATCH lines allot them).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "analyzer/io/launch_file.h"

namespace s2t {

// Of torchrun and deepspeed.
inline constexpr std::string_view kRanksOfANode =
    "--nproc_per_node --nproc-per-node --num_gpus --num-gpus";
inline constexpr std::string_view kNodes = "--nnodes --num_nodes --num-nodes";
// Of accelerate, mpirun and Slurm: they say how many ranks there are, if nothing else does.
inline constexpr std::string_view kAllotted =
    "--num_processes --num-processes --ntasks --np --nodes --ntasks-per-node --gpus-per-node "
    "--include";

// The number, and where that is said; nullopt if the launch does not say it.
std::optional<std::pair<int64_t, std::string>> ranks_of_job(const Launch& launch);

}  // namespace s2t
