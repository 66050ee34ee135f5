#include "runtime/comm/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace s2t {
namespace {

// How a launcher tells a process its place. `job` is the same on all ranks of one run and differs
// between runs; `needs` must be set too (srun leaves its rank variables in batch scripts as well).
struct Launcher {
  const char* by;
  const char *rank, *size, *local_rank, *local_size;
  const char* job;
  const char* needs;
};

constexpr Launcher kLaunchers[] = {
    {"shape2trace", kRankVariable, kSizeVariable, kRankVariable, kSizeVariable, kControlVariable,
     kControlVariable},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", nullptr},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID",
     "LOCAL_RANK"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE",
     "SLURM_JOB_ID", "SLURM_STEP_ID"},
};

std::string text(const char* name) {
  const char* value = name == nullptr ? nullptr : std::getenv(name);
  return value == nullptr ? "" : value;
}

int number(const char* name, int otherwise) {
  const std::string value = text(name);
  return value.empty() ? otherwise : std::atoi(value.c_str());  // of "8(x2)" the 8
}

bool started(const Launcher& l) {
  return !text(l.rank).empty() && !text(l.size).empty() &&
         (l.needs == nullptr || !text(l.needs).empty());
}

constexpr int kFirstPort = 20'000, kPorts = 10'000;

int port_of(const std::string& job) {
  uint32_t hash = 2166136261u;  // FNV-1a: the same on every rank of the job
  for (const char c : job) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return kFirstPort + static_cast<int>(hash % kPorts);
}

// The port next to MASTER_PORT, which torchrun's own store already holds.
ControlAddress meeting_point(const Launcher& by, const Place& place) {
  const std::string host = text("MASTER_ADDR"), job = text(by.job);
  const int port = number("MASTER_PORT", 0);
  if (!host.empty() && port > 0) return {host, port + 1, "job-" + job};
  if (place.local_size == place.size) return {"127.0.0.1", port_of(job), "job-" + job};
  throw CommError(
      CommReason::transport,
      fmt::format("{} started {} ranks, {} of them on this machine: set MASTER_ADDR and "
                  "MASTER_PORT on all of them",
                  by.by, place.size, place.local_size));
}

}  // namespace

bool is_started_rank() {
  return std::any_of(std::begin(kLaunchers), std::end(kLaunchers), started);
}

std::optional<StartedAs> started_as(std::chrono::milliseconds timeout) {
  for (const Launcher& l : kLaunchers) {
    if (!started(l)) continue;
    StartedAs s;
    s.by = l.by;
    s.place.rank = Rank(number(l.rank, 0));
    s.place.size = number(l.size, 1);
    s.place.local_rank = number(l.local_rank, s.place.rank.value);
    s.place.local_size = number(l.local_size, s.place.size);
    s.place.timeout = timeout;
    s.judged = !text(kControlVariable).empty();
    s.control =
        s.judged ? parse_control_address(text(kControlVariable)) : meeting_point(l, s.place);
    return s;
  }
  return std::nullopt;
}

}  // namespace s2t
