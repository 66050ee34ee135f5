// A signal that asks to end while a report is made: the program ends by it, as if nobody had
// listened, but neither scratch files nor an outside program stay behind.
//
// The handler only writes to a pipe; a thread reads it, because removing files is nothing for a
// handler. Not for `verify`, whose ranks may be processes and which ends in order (interruption.h).
#pragma once

#include <optional>
#include <thread>

#include "runtime/comm/signals.h"

namespace s2t {

class TidyEnding {
 public:
  TidyEnding();
  ~TidyEnding();
  TidyEnding(const TidyEnding&) = delete;
  TidyEnding& operator=(const TidyEnding&) = delete;

 private:
  std::thread listener_;
  std::optional<EndingSignals> signals_;
};

}  // namespace s2t
