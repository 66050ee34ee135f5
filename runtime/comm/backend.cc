#include "runtime/comm/backend.h"

#include <array>
#include <atomic>
#include <csignal>

#include "runtime/comm/host_threads.h"
#include "runtime/comm/mpi_processes.h"
#include "runtime/comm/nccl_processes.h"

namespace s2t {
namespace {

constexpr std::array<Backend, 3> kBackends{{
    {"host", "ranks are threads of one process; needs nothing", probe_host_threads,
     run_host_threads},
    {"mpi", "a process per rank over MPI; started by us or under mpirun", probe_mpi, run_mpi},
    {"nccl", "a process per rank on GPUs; started by us, mpirun, torchrun or srun", probe_nccl,
     run_nccl},
}};

std::atomic<bool> cancelled{false};
static_assert(std::atomic<bool>::is_always_lock_free);

constexpr int kPatience = 3;
std::atomic<int> signals{0}, guards{0};

void on_signal(int signal) {
  cancelled = true;
  if (++signals == kPatience) std::_Exit(128 + signal);
}

}  // namespace

std::span<const Backend> backends() {
  return kBackends;
}

const Backend* find_backend(std::string_view name) {
  for (const Backend& b : kBackends)
    if (b.name == name) return &b;
  return nullptr;
}

bool cancel_requested() noexcept {
  return cancelled;
}

void throw_if_cancelled() {
  if (cancelled) throw CommError(CommReason::cancelled, kCancelled);
}

CancelOnSignal::CancelOnSignal() : outermost_(guards++ == 0) {
  if (!outermost_) return;
  cancelled = false;
  signals = 0;
  signals_.emplace(on_signal);
}

CancelOnSignal::~CancelOnSignal() {
  --guards;
  if (!outermost_) return;
  signals_.reset();
  cancelled = false;
}

}  // namespace s2t
