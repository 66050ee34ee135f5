// The signals that ask a program to end: Ctrl-C, a polite end, a closed terminal and Ctrl-\.
#pragma once

#include <array>
#include <csignal>

namespace s2t {

inline constexpr std::array kEndingSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// Calls `handler` for them while it lives, but for those that whoever started us ignores (nohup).
class EndingSignals {
 public:
  explicit EndingSignals(void (*handler)(int signal), int flags = 0);  // flags: of sigaction
  ~EndingSignals();
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;

 private:
  std::array<struct sigaction, kEndingSignals.size()> before_{};
};

}  // namespace s2t
