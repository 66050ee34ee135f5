#include "analyzer/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string_view>

namespace s2t {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kSilent = 2s;
constexpr auto kEvery = 1s;

bool shown_anyway() {
  const char* wish = std::getenv("S2T_PROGRESS");
  return wish != nullptr && std::string_view(wish) == "always";
}

}  // namespace

Progress::Progress() : terminal_(::isatty(STDERR_FILENO) == 1) {
  if (terminal_ || shown_anyway()) thread_ = std::thread([this] { show_until_done(); });
}

Progress::~Progress() {
  stop();
}

void Progress::stop() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Progress::say(const std::string& doing) {
  const std::lock_guard lock(mutex_);
  doing_ = doing;
}

void Progress::show_until_done() {
  const auto start = Clock::now();
  std::unique_lock lock(mutex_);
  bool shown = false;
  for (auto next = start + kSilent; !changed_.wait_until(lock, next, [&] { return done_; });
       next += kEvery) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start);
    const std::string line = fmt::format("shape2trace: {}, {} s", doing_, seconds.count());
    // Back to the line's beginning; what an older, longer text left there is wiped out.
    fmt::print(stderr, "{}{}{}", terminal_ ? "\r" : "", line, terminal_ ? "\033[K" : "\n");
    std::fflush(stderr);
    shown = true;
  }
  if (shown && terminal_) fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
}

}  // namespace s2t
