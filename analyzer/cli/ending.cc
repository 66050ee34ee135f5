#include "analyzer/cli/ending.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "analyzer/base/diagnostics.h"
#include "analyzer/cli/outside.h"
#include "analyzer/cli/scratch.h"

namespace s2t {
namespace {

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
  signals_.emplace(on_signal, SA_RESTART);
}

TidyEnding::~TidyEnding() {
  signals_.reset();
  on_signal(0);
  listener_.join();
  for (int& end : ends) {
    close(end);
    end = -1;
  }
}

}  // namespace s2t
