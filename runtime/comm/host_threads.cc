#include "runtime/comm/host_threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "analyzer/base/diagnostics.h"
#include "runtime/comm/host_execute.h"
#include "runtime/comm/outcome.h"
#include "runtime/comm/rendezvous.h"
#include "runtime/device/host_device.h"

namespace s2t {
namespace {

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(Rendezvous& meet, Rendezvous::Group& group, int position)
      : meet_(meet), group_(group), position_(position) {}

  int rank() const override { return position_; }
  std::span<const Rank> ranks() const override { return group_.ranks; }
  const std::string& name() const override { return group_.name; }
  Device& device() override { return host_device(); }

  void group_begin() override { ++depth_; }
  void group_end() override {
    if (depth_ == 0) throw Fault("group_end without group_begin");
    if (--depth_ != 0) return;
    const std::vector<Call> batch = std::exchange(batch_, {});
    meet_.messages(global(), group_, position_, batch);
  }

  void issue(const Call& call) override {
    check(call, position_, size(), depth_ != 0);
    if (!is_point_to_point(call.op)) return meet_.collective(global(), group_, position_, call);
    batch_.push_back(call);
    if (depth_ == 0) {
      depth_ = 1;
      group_end();
    }
  }

 private:
  Rank global() const { return group_.ranks[static_cast<size_t>(position_)]; }

  Rendezvous& meet_;
  Rendezvous::Group& group_;
  int position_;
  int depth_ = 0;
  std::vector<Call> batch_;
};

class HostWorld final : public World {
 public:
  HostWorld(Rendezvous& meet, Rank rank, int size) : meet_(meet), rank_(rank), size_(size) {}

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  Device& device() override { return host_device(); }

  std::unique_ptr<Communicator> create_group(const std::string& name,
                                             const std::vector<Rank>& ranks) override {
    check_group(name, ranks, size_);
    Rendezvous::Group& group = meet_.create_group(rank_, name, ranks);
    const auto me = std::find(ranks.begin(), ranks.end(), rank_);
    if (me == ranks.end()) return nullptr;
    return std::make_unique<HostCommunicator>(meet_, group, static_cast<int>(me - ranks.begin()));
  }

  void abort(const std::string& reason) override {
    const CommError error(CommReason::cancelled,
                          fmt::format("rank {} ended the run: {}", rank_.value, reason), rank_);
    meet_.fail(error, rank_);
    throw error;
  }

  void check_alive() override { meet_.check_alive(); }

  void annotate(Annotation annotation) override {
    annotation_ = std::move(annotation);
    meet_.annotate(rank_, annotation_);
  }
  const Annotation& annotation() const override { return annotation_; }

 private:
  Rendezvous& meet_;
  Rank rank_;
  int size_;
  Annotation annotation_;
};

// An exception of the body itself ends the world; the world's own end is only passed on.
void run_rank(Rendezvous& meet, Rank rank, int size, const RankBody& body, RankOutcome& outcome) {
  const auto died = [&](const std::string& what) {
    const CommError error(
        CommReason::died,
        fmt::format("rank {} died {}: {}", rank.value, meet.whereabouts(rank), what), rank);
    meet.fail(error, rank);
    outcome.failure = {rank, error.reason(), error.what()};
  };
  try {
    HostWorld world(meet, rank, size);
    outcome.result = body(world);
  } catch (const CommError& e) {
    outcome.thrown = std::current_exception();
    outcome.failure = {rank, e.reason(), e.what()};
  } catch (const std::bad_alloc&) {
    outcome.thrown = std::current_exception();
    died("out of memory");
  } catch (const std::exception& e) {
    outcome.thrown = std::current_exception();
    died(e.what());
  } catch (...) {
    outcome.thrown = std::current_exception();
    died("an unknown exception");
  }
  meet.finish(rank);
}

}  // namespace

Probe probe_host_threads() {
  return {true,
          fmt::format("threads of this process, {} cores", std::thread::hardware_concurrency()),
          false};
}

RunResult run_host_threads(const RunOptions& options, const RankBody& body) {
  const auto size = static_cast<size_t>(options.world_size);
  const CancelOnSignal guard;
  Rendezvous meet(options.world_size, options.timeout, execute_on_host);
  std::vector<RankOutcome> outcomes(size);
  {
    std::vector<std::jthread> threads;
    for (size_t r = 0; r < size; ++r) {
      try {
        threads.emplace_back(
            [&, r] { run_rank(meet, Rank(r), options.world_size, body, outcomes[r]); });
      } catch (const std::system_error& e) {
        const CommError error(CommReason::transport,
                              fmt::format("no thread for rank {}: {}", r, e.what()), Rank(r));
        meet.fail(error, Rank(r));
        outcomes[r].failure = {Rank(r), error.reason(), error.what()};
        break;
      }
    }
  }
  return gather(std::move(outcomes), meet.found_by());
}

}  // namespace s2t
