// The table of backends, and the one entry that runs a body once per rank on any of them.
//
// Known here: that a backend has a name, may be unusable for a reason, and starts ranks. Not known
// here: how (threads, mpirun, processes of our own), or what the body computes.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/signals.h"

namespace s2t {

// What one rank does. Its result travels to whoever started the ranks.
using RankBody = std::function<std::string(World&)>;

struct RunOptions {
  int world_size = 1;
  std::chrono::milliseconds timeout{30'000};  // of any one wait

  // Process backends start this program again, once per rank, with these arguments; it must come to
  // the same `run_ranks` call, which then runs the body as that rank.
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  // added to every rank's, e.g. LD_PRELOAD
};

struct RankFailure {
  Rank rank;
  CommReason reason;
  std::string text;
};

struct RunResult {
  // False in a process that was one rank of a run somebody else reports: exit with `exit_code`.
  bool reports = true;
  std::vector<std::string> results;   // by rank, what the body returned; "" where it did not
  std::vector<RankFailure> failures;  // the cause first, then those it stopped
  std::exception_ptr cause;           // in this process: what the first failing rank threw

  std::string output;  // process backends: what ranks wrote to stderr, each line with its rank

  bool ok() const { return failures.empty(); }
  int exit_code() const { return ok() ? 0 : 1; }
};

struct Probe {
  bool usable = false;
  std::string why;        // one line: what was found, or why it cannot be used
  bool stand_in = false;  // test doubles answered instead of the real libraries
};

struct Backend {
  std::string_view name;
  std::string_view summary;
  Probe (*probe)();
  RunResult (*run)(const RunOptions&, const RankBody&);
};

std::span<const Backend> backends();
const Backend* find_backend(std::string_view name);  // null if there is no such backend

// By a signal: every rank of this process stops at its next wait.
bool cancel_requested() noexcept;
void throw_if_cancelled();  // CommError(cancelled)
constexpr const char* kCancelled = "cancelled by a signal";

// While it lives, the signals that ask a program to end request a cancel; a third one ends the
// process at once and may leave files behind. Every `run` has one of its own, which does nothing inside another.
class CancelOnSignal {
 public:
  CancelOnSignal();
  ~CancelOnSignal();
  CancelOnSignal(const CancelOnSignal&) = delete;
  CancelOnSignal& operator=(const CancelOnSignal&) = delete;

 private:
  const bool outermost_;
  std::optional<EndingSignals> signals_;
};

}  // namespace s2t
