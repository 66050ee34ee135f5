// Runs a body with one process per rank, whoever started the processes.
//
// Known here: the three parts a process may play. As itself it starts the ranks and judges them; as
// a rank of its own launcher it runs the body; as a rank that mpirun, torchrun or srun started it
// runs the body, and rank 0 judges as well. Not known here: what moves the data (a module), and the
// command that starts ranks (the backend's).
#pragma once

#include <functional>

#include "runtime/comm/children.h"
#include "runtime/comm/place.h"

namespace s2t {

struct ProcessBackend {
  std::string module;  // "s2t_mpi.so"
  // The processes to start so that `options.world_size` ranks come to be.
  std::function<std::vector<ChildCommand>(const RunOptions& options)> commands;
  // Which of them carries rank r.
  size_t (*child_of)(Rank rank);
  // Whose end made a process that carries several ranks end, read from what it wrote.
  std::optional<Obituary> (*first_to_end)(const std::string& output) = nullptr;
};

RunResult run_processes(const ProcessBackend& backend, const RunOptions& options,
                        const RankBody& body);

std::string this_program();  // path of the running executable

}  // namespace s2t
