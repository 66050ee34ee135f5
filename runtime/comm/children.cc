#include "runtime/comm/children.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <thread>

extern char** environ;

namespace s2t {
namespace {

constexpr size_t kOutputKept = 64 * 1024;  // a rank that screams must not fill the memory

[[noreturn]] void fail(const std::string& what, int error) {
  throw CommError(CommReason::transport, fmt::format("{}: {}", what, std::strerror(error)));
}

std::vector<std::string> environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> result;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string entry = *e;
    if (!added.contains(entry.substr(0, entry.find('=')))) result.push_back(entry);
  }
  for (const auto& [name, value] : added) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& s : strings) result.push_back(s.data());
  result.push_back(nullptr);
  return result;
}

// posix_spawn's two parameter objects, which must be destroyed again.
struct SpawnSettings {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  explicit SpawnSettings(int error_pipe) {
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&files, error_pipe, 2);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
};

std::string describe(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("its process was ended by signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  const int code = WEXITSTATUS(status);
  return code == 0 ? "" : fmt::format("its process ended with exit code {}", code);
}

}  // namespace

Children::Children(const std::vector<ChildCommand>& commands) : children_(commands.size()) {
  for (size_t i = 0; i < commands.size(); ++i) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("no pipe", errno);
    const Descriptor write_end(ends[1]);
    children_[i].errors = Descriptor(ends[0]);
    children_[i].name = commands[i].name;
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    const SpawnSettings settings(ends[1]);
    std::vector<std::string> arguments = commands[i].arguments;
    std::vector<std::string> variables = environment(commands[i].environment);
    const int error =
        posix_spawnp(&children_[i].pid, arguments[0].c_str(), &settings.files, &settings.attributes,
                     pointers(arguments).data(), pointers(variables).data());
    if (error != 0) {
      children_[i].pid = -1;
      signal(SIGKILL);
      fail("cannot start " + arguments[0], error);
    }
  }
}

Children::~Children() {
  signal(SIGKILL);
  for (Child& child : children_)
    if (child.pid > 0 && !child.how_ended) ::waitpid(child.pid, nullptr, 0);
}

std::vector<size_t> Children::watch(std::chrono::milliseconds patience) {
  std::vector<pollfd> waiting;
  for (const Child& child : children_) waiting.push_back({child.errors.get(), POLLIN, 0});
  if (all_ended())
    std::this_thread::sleep_for(patience);
  else
    ::poll(waiting.data(), waiting.size(), static_cast<int>(patience.count()));
  std::vector<size_t> ended;
  for (size_t i = 0; i < children_.size(); ++i) {
    Child& child = children_[i];
    int status = 0;
    const bool over = !child.how_ended && ::waitpid(child.pid, &status, WNOHANG) == child.pid;
    read_from(child);
    if (!over) continue;
    child.how_ended = describe(status);
    child.by_signal = WIFSIGNALED(status);
    ended.push_back(i);
  }
  return ended;
}

void Children::read_from(Child& child) {
  char bytes[4096];
  ssize_t got = 0;
  while (child.errors.open() && (got = ::read(child.errors.get(), bytes, sizeof bytes)) > 0)
    for (const char* c = bytes; c != bytes + got; ++c) {
      if (*c != '\n') {
        child.line += *c;
        continue;
      }
      keep(child.name, std::exchange(child.line, ""));
    }
  if (got != 0 || !child.errors.open()) return;
  if (!child.line.empty()) keep(child.name, std::exchange(child.line, ""));
  child.errors.close();
}

void Children::keep(const std::string& name, const std::string& line) {
  if (output_.size() < kOutputKept) output_ += fmt::format("[{}] {}\n", name, line);
}

bool Children::all_ended() const {
  for (const Child& child : children_)
    if (!child.how_ended) return false;
  return true;
}

const std::string& Children::how_ended(size_t child) const {
  return *children_[child].how_ended;
}

bool Children::ended_by_signal(size_t child) const {
  return children_[child].by_signal;
}

void Children::signal(int number) {
  for (const Child& child : children_)
    if (child.pid > 0 && !child.how_ended) ::kill(-child.pid, number);
}

// The state follows the name, which stands in brackets and may hold anything.
bool is_stopped(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(") ");
  return name_end != std::string::npos && name_end + 2 < line.size() &&
         (line[name_end + 2] == 'T' || line[name_end + 2] == 't');
}

}  // namespace s2t
