// The witness libraries that can watch the ranks of a backend, and the environment that loads them.
//
// Known here: where the libraries lie and which variable makes somebody load them. Not known here:
// what they write, or whether it agrees with anything. The runtime itself never talks to one.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace s2t {

struct Witness {
  std::string_view name;      // "pmpi"; its records are <name>.<pid>.jsonl
  std::string_view backend;   // whose ranks it can watch
  std::string_view file;      // "libs2t_pmpi.so"
  std::string_view variable;  // the dynamic linker, NCCL or the driver looks there
  bool needs_gpu = false;     // sees nothing on stand-ins
  std::string_view sees;      // for `doctor`
};

std::span<const Witness> witnesses();

// Its library, looked for where modules are; "" if it was not built, or is not here.
std::string library_of(const Witness& witness);

// Where every witness writes its records.
inline constexpr const char* kWitnessFolder = "S2T_WITNESS_DIR";

// Adds what makes a process load the library. LD_PRELOAD keeps what it holds already.
void load_by_environment(const Witness& witness, const std::string& library,
                         std::map<std::string, std::string>& environment);

}  // namespace s2t
