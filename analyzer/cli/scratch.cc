#include "analyzer/cli/scratch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include "analyzer/base/diagnostics.h"

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

[[noreturn]] void refuse_temporary() {
  refuse_folder("TMPDIR", "no folder that can be written to", "one, or leave it unset");
}

std::string pattern() {
  std::error_code none;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(none);
  if (none) refuse_temporary();
  return (folder / "shape2trace-XXXXXX").string();
}

}  // namespace

void refuse_folder(const std::string& variable, const std::string& found,
                   const std::string& expected) {
  throw UserError("", {{"", fmt::format("the environment variable {} names {}", variable, found),
                        expected, "", "bad-folder"}});
}

Scratch Scratch::folder() {
  std::string path = pattern();
  if (mkdtemp(path.data()) == nullptr) refuse_temporary();
  return Scratch(path);
}

Scratch Scratch::file(std::string_view suffix, std::string_view text) {
  std::string path = pattern() + std::string(suffix);
  const int fd = mkstemps(path.data(), static_cast<int>(suffix.size()));
  if (fd < 0) refuse_temporary();
  Scratch scratch(path);
  const bool kept = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  if (!kept) refuse_temporary();
  return scratch;
}

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
