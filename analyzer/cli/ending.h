// Ctrl-C, SIGTERM and SIGHUP while a report is made: the program ends by that signal, as if nobody
// had listened, but neither scratch files nor an outside program stay behind.
//
// The handler only writes to a pipe; a thread reads it, because removing files is nothing for a
// handler. Not for `verify`, whose ranks may be processes and which ends in order (interruption.h).
#pragma once

#include <array>
#include <csignal>
#include <thread>

namespace s2t {

class TidyEnding {
 public:
  TidyEnding();
  ~TidyEnding();
  TidyEnding(const TidyEnding&) = delete;
  TidyEnding& operator=(const TidyEnding&) = delete;

 private:
  std::array<struct sigaction, 3> before_{};
  std::thread listener_;
};

}  // namespace s2t
