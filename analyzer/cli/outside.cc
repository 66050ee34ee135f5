#include "analyzer/cli/outside.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/text.h"
#include "analyzer/cli/command.h"
#include "analyzer/report/report.h"

extern char** environ;

namespace s2t {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  std::array<int, 2> end{-1, -1};
  Pipe() {
    if (pipe2(end.data(), O_CLOEXEC) != 0) throw Fault("no pipe to an outside program");
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(size_t i) {
    if (end[i] >= 0) close(end[i]);
    end[i] = -1;
  }
};

std::atomic<pid_t> running{-1};  // for who ends the program

// A child that is never left behind.
class Child {
 public:
  Child(const std::string& file, std::vector<std::string> words) {
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in.end[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out.end[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    const int error = posix_spawn(&pid_, file.c_str(), &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw Fault("cannot start " + file);
    running = pid_;
    in.close_end(0);
    out.close_end(1);
    fcntl(in.end[1], F_SETFL, O_NONBLOCK);
  }
  ~Child() {
    if (pid_ <= 0) return;
    running = -1;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool succeeded() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = running = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  Pipe in, out;

 private:
  pid_t pid_ = -1;
};

void feed(Child& child, const std::string& input, size_t& sent) {
  const ssize_t n = write(child.in.end[1], input.data() + sent, input.size() - sent);
  if (n > 0) sent += static_cast<size_t>(n);
  if (sent == input.size() || (n < 0 && errno != EAGAIN && errno != EINTR)) child.in.close_end(1);
}

// Feeds and reads until the child closes its output; false if that takes too long.
bool converse(Child& child, const std::string& input, std::string& output, int seconds) {
  const auto deadline = Clock::now() + std::chrono::seconds(seconds);
  std::array<char, 65536> buffer{};
  for (size_t sent = 0;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    std::array<pollfd, 2> ends{{{child.out.end[0], POLLIN, 0}, {child.in.end[1], POLLOUT, 0}}};
    if (poll(ends.data(), 2, static_cast<int>(left)) <= 0) continue;
    if (ends[1].fd >= 0 && ends[1].revents != 0) feed(child, input, sent);
    if (ends[0].revents == 0) continue;
    const ssize_t n = read(child.out.end[0], buffer.data(), buffer.size());
    if (n == 0) return true;
    if (n > 0) output.append(buffer.data(), static_cast<size_t>(n));
  }
}

// How what was asked for begins; another format may begin anyhow.
bool is_asked_for(std::string_view command, std::string_view output) {
  const auto begins = [&](std::string_view with) { return output.substr(0, with.size()) == with; };
  if (command.ends_with(" -Tsvg")) return begins("<?xml") || begins("<svg");
  if (command.find(" -Tpng") != command.npos) return begins("\x89PNG\r\n\x1a\n");
  return true;
}

}  // namespace

void end_outside_program() {
  if (const pid_t pid = running; pid > 0) kill(pid, SIGKILL);
}

std::string find_program(std::string_view name) {
  const char* path = std::getenv("PATH");
  std::string rest = path ? path : "";
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    const std::string file = rest.substr(0, end) + "/" + std::string(name);
    if (access(file.c_str(), X_OK) == 0) return file;
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  return "";
}

std::string run_through(std::string_view command, const std::string& input, int seconds) {
  std::vector<std::string> words = words_of(command);
  const std::string name = words.at(0), file = find_program(name);
  if (file.empty())
    throw Absent(
        fmt::format("{} is not installed, and this format needs it; other formats do not", name));
  signal(SIGPIPE, SIG_IGN);  // a child that ends early is told by its exit status
  Child child(file, std::move(words));
  std::string output;
  if (!converse(child, input, output, seconds))
    throw TooMuchToDraw("shape2trace",
                        {{"--format", fmt::format("{} took longer than {} s", name, seconds), "",
                          "Draw less with --layers, --phase, --axis or --rank.", "too-slow"}});
  if (!child.succeeded() || !is_asked_for(command, output))
    throw DrawingFailed(fmt::format("{} failed on what we gave it", command));
  return output;
}

}  // namespace s2t
