#include "analyzer/cli/ending.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "analyzer/base/diagnostics.h"
#include "analyzer/cli/outside.h"
#include "analyzer/cli/scratch.h"

namespace s2t {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
std::array<int, 2> ends{-1, -1};  // of the pipe: one byte, the signal; 0: nothing came

void on_signal(int signal) {
  const int error = errno;
  const auto byte = static_cast<char>(signal);
  [[maybe_unused]] const ssize_t n = write(ends[1], &byte, 1);
  errno = error;
}

void listen() {
  char signal = 0;
  while (read(ends[0], &signal, 1) < 0 && errno == EINTR) {
  }
  if (signal == 0) return;
  Scratch::remove_all();
  end_outside_program();
  ::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace

TidyEnding::TidyEnding() {
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw Fault("no pipe for signals");
  listener_ = std::thread(listen);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);  // nohup
  }
}

TidyEnding::~TidyEnding() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  on_signal(0);
  listener_.join();
  for (int& end : ends) {
    close(end);
    end = -1;
  }
}

}  // namespace s2t
