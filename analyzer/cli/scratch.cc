#include "analyzer/cli/scratch.h"

#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

namespace s2t {
namespace {

struct Registry {
  std::mutex mutex;
  std::set<std::string> paths;
};

Registry& registry() {
  static auto* instance = new Registry;  // outlives every static that owns scratch
  return *instance;
}

void remove(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace

Scratch::Scratch(std::string path) : path_(std::move(path)) {
  const std::lock_guard lock(registry().mutex);
  registry().paths.insert(path_);
}

Scratch::Scratch(Scratch&& other) noexcept : path_(std::exchange(other.path_, "")) {}

Scratch& Scratch::operator=(Scratch&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

Scratch::~Scratch() {
  if (path_.empty()) return;
  remove(path_);
  keep();
}

void Scratch::keep() {
  const std::lock_guard lock(registry().mutex);
  registry().paths.erase(path_);
  path_.clear();
}

void Scratch::remove_all() {
  const std::lock_guard lock(registry().mutex);
  for (const std::string& path : registry().paths) remove(path);
}

}  // namespace s2t
