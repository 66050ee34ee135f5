// A signal that asks to end while `verify` works: it ends soon, says so, and leaves nothing behind.
//
// The ranks stop at their next call and the unsharded model at its next op, which is the orderly
// end. One op of a large model may take minutes, and nobody waits for that: a second after the
// signal the program says its last words, removes its scratch and ends where it stands. Ranks that
// are processes must be ended before, by whoever started them, which takes a few seconds at most.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/comm/backend.h"

namespace s2t {

class Interruption {
 public:
  explicit Interruption(std::function<void()> last_words);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  void ranks_are_processes(bool running) { children_ = running; }
  // From here on a signal changes nothing: everything is known and will be said.
  void over();

 private:
  void watch();

  const CancelOnSignal signals_;
  const std::function<void()> last_words_;
  std::atomic<bool> children_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread watcher_;  // last: it reads the others
};

}  // namespace s2t
