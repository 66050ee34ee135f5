#include "analyzer/cli/interruption.h"

#include <chrono>
#include <cstdlib>
#include <utility>

#include "analyzer/cli/command.h"
#include "analyzer/cli/scratch.h"

namespace s2t {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kGlance = 50ms;
constexpr auto kPatience = 700ms;  // for the orderly end

}  // namespace

Interruption::Interruption(std::function<void()> last_words)
    : last_words_(std::move(last_words)), watcher_([this] { watch(); }) {}

Interruption::~Interruption() {
  over();
}

void Interruption::over() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void Interruption::watch() {
  auto end = Clock::now() + kPatience;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kGlance, [&] { return over_; })) {
    if (!cancel_requested() || children_)
      end = Clock::now() + kPatience;
    else if (Clock::now() >= end) {
      last_words_();
      Scratch::remove_all();
      std::_Exit(kMismatch);
    }
  }
}

}  // namespace s2t
