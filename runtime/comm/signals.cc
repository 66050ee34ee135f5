#include "runtime/comm/signals.h"

namespace s2t {

EndingSignals::EndingSignals(void (*handler)(int signal), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kEndingSignals.size(); ++i) {
    sigaction(kEndingSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kEndingSignals[i], &action, nullptr);
  }
}

EndingSignals::~EndingSignals() {
  for (size_t i = 0; i < kEndingSignals.size(); ++i)
    sigaction(kEndingSignals[i], &before_[i], nullptr);
}

}  // namespace s2t
