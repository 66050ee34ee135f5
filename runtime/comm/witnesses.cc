#include "runtime/comm/witnesses.h"

#include <array>
#include <cstdlib>

#include "runtime/comm/module.h"

namespace s2t {
namespace {

constexpr std::string_view kPreload = "LD_PRELOAD";

constexpr std::array<Witness, 4> kWitnesses{{
    {"pmpi", "mpi", "libs2t_pmpi.so", kPreload, false, "every MPI call"},
    {"pnccl", "nccl", "libs2t_pnccl.so", kPreload, false, "every NCCL call"},
    {"ncclprof", "nccl", "libs2t_ncclprof.so", "NCCL_PROFILER_PLUGIN", false,
     "what NCCL planned and launched"},
    {"cupti", "nccl", "libs2t_cupti.so", "CUDA_INJECTION64_PATH", true,
     "kernels that a GPU executed"},
}};

std::string before(const std::string& first, std::string_view variable,
                   const std::map<std::string, std::string>& environment) {
  const auto set = environment.find(std::string(variable));
  const char* inherited = std::getenv(std::string(variable).c_str());
  const std::string rest = set != environment.end() ? set->second : inherited ? inherited : "";
  return rest.empty() ? first : first + ":" + rest;
}

}  // namespace

std::span<const Witness> witnesses() {
  return kWitnesses;
}

std::string library_of(const Witness& witness) {
  return find_beside(std::string(witness.file));
}

void load_by_environment(const Witness& witness, const std::string& library,
                         std::map<std::string, std::string>& environment) {
  environment[std::string(witness.variable)] =
      witness.variable == kPreload ? before(library, kPreload, environment) : library;
}

}  // namespace s2t
