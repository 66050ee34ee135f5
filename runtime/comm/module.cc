#include "runtime/comm/module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>

namespace s2t {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders() {
  std::vector<fs::path> result;
  const char* path = std::getenv("S2T_MODULE_PATH");
  std::istringstream list(path == nullptr ? "" : path);
  for (std::string folder; std::getline(list, folder, ':');)
    if (!folder.empty()) result.emplace_back(folder);
  std::error_code ignored;
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  result.push_back(here);
  result.push_back(here / "../lib/shape2trace");
  result.push_back(here / "runtime");
  result.push_back(here / "../runtime");
  return result;
}

template <class Function>
Function symbol(void* handle, const char* name) {
  return reinterpret_cast<Function>(dlsym(handle, name));
}

Module refuse(std::string why) {
  Module m;
  m.why_not = std::move(why);
  return m;
}

Module load(const std::string& file) {
  const std::string found = find_beside(file);
  if (found.empty()) return refuse(fmt::format("{} was not built, or not found here", file));
  void* handle = dlopen(found.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return refuse(dlerror());
  const auto abi = symbol<ModuleAbi>(handle, "s2t_module_abi");
  if (abi == nullptr || abi() != kModuleAbi)
    return refuse(fmt::format("{} belongs to another version of this program", file));
  Module m;
  m.probe = symbol<ModuleProbe>(handle, "s2t_module_probe");
  m.open = symbol<ModuleOpen>(handle, "s2t_module_open");
  return m.probe != nullptr && m.open != nullptr ? m : refuse(file + " is incomplete");
}

}  // namespace

std::string find_beside(const std::string& file) {
  std::error_code ignored;
  for (const fs::path& folder : folders())
    if (fs::exists(folder / file, ignored)) return fs::weakly_canonical(folder / file, ignored);
  return "";
}

const Module& load_module(const std::string& file) {
  static std::mutex mutex;
  static std::map<std::string, Module> modules;
  const std::lock_guard lock(mutex);
  const auto known = modules.find(file);
  return known != modules.end() ? known->second : modules.emplace(file, load(file)).first->second;
}

Probe probe_module(const std::string& file) {
  const Module& module = load_module(file);
  Probe probe;
  probe.why = module.why_not;
  if (module.loaded()) module.probe(&probe);
  return probe;
}

}  // namespace s2t
