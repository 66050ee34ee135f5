// Finds and loads a backend's module, or says in one line why it cannot.
#pragma once

#include <memory>
#include <string>

#include "runtime/comm/transport.h"

namespace s2t {

struct Module {
  ModuleProbe probe = nullptr;
  ModuleOpen open = nullptr;
  std::string why_not;  // set if and only if it could not be loaded

  bool loaded() const { return open != nullptr; }
};

// Where `file` ("s2t_mpi.so") is: in the folders of S2T_MODULE_PATH, beside the executable, in
// ../lib/shape2trace (installed) or in runtime and ../runtime (the build tree). "" if nowhere.
std::string find_beside(const std::string& file);

// Loaded once, never unloaded.
const Module& load_module(const std::string& file);

Probe probe_module(const std::string& file);

}  // namespace s2t
