// Faults that a test asks for: S2T_STANDIN_FAULT="oom=1048576,stall=1:3".
//
//   no_driver        every call answers as on a machine without a driver (35, count untouched)
//   no_device        a driver, but no GPU that is visible (100)
//   oom=BYTES        device memory ends after BYTES, over all allocations alive
//   no_cublas        cublasCreate fails (1, not initialised)
//   nccl_version=N   ncclGetVersion answers N, for example 21703
//   stall=R:K        rank R never finishes its K-th NCCL kernel (until it is aborted)
//   die=R:K          rank R kills itself (SIGKILL) in its K-th NCCL kernel
//   async=R:K        rank R's K-th NCCL kernel reports ncclSystemError asynchronously
//   refuse=R:K       rank R's K-th NCCL data call returns ncclSystemError at once
//
// R is the rank in the first communicator that the process joined, K counts from 1.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace s2t::standin {

// The argument of the named fault ("" when it has none); nullopt when it was not asked for.
inline std::optional<std::string> fault(std::string_view name) {
  const char* text = std::getenv("S2T_STANDIN_FAULT");
  std::string_view rest = text ? text : "";
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(item.size() < rest.size() ? item.size() + 1 : rest.size());
    const size_t equals = item.find('=');
    if (item.substr(0, equals) != name) continue;
    return equals == std::string_view::npos ? "" : std::string(item.substr(equals + 1));
  }
  return std::nullopt;
}

// True when the fault is `name=R:K` with exactly this rank and this count.
inline bool fault_at(std::string_view name, int rank, uint64_t count) {
  const auto argument = fault(name);
  return argument && *argument == std::to_string(rank) + ":" + std::to_string(count);
}

}  // namespace s2t::standin
