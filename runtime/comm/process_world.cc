#include "runtime/comm/process_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analyzer/base/diagnostics.h"

namespace s2t {
namespace {

class ProcessCommunicator final : public Communicator {
 public:
  ProcessCommunicator(GroupPlace place, ProcessWorld& world, ControlLink& link,
                      std::unique_ptr<Channel> channel)
      : place_(std::move(place)), world_(world), link_(link), channel_(std::move(channel)) {}

  int rank() const override { return place_.position; }
  std::span<const Rank> ranks() const override { return place_.ranks; }
  const std::string& name() const override { return place_.name; }
  Device& device() override { return world_.device(); }

  void group_begin() override { ++depth_; }
  void group_end() override {
    if (depth_ == 0) throw Fault("group_end without group_begin");
    if (--depth_ != 0) return;
    const std::vector<Call> batch = std::exchange(batch_, {});
    if (batch.empty()) return;
    link_.messages(place_, world_.annotation(), batch);
    channel_->messages(batch, world_.annotation());
  }

  void issue(const Call& call) override {
    check(call, place_.position, size(), depth_ != 0);
    if (is_point_to_point(call.op)) {
      batch_.push_back(call);
      if (depth_ == 0) {
        depth_ = 1;
        group_end();
      }
      return;
    }
    link_.collective(place_, world_.annotation(), call);
    if (!channel_->collective(call, world_.annotation())) by_messages(*this, call);
  }

 private:
  const GroupPlace place_;
  ProcessWorld& world_;
  ControlLink& link_;
  std::unique_ptr<Channel> channel_;
  int depth_ = 0;
  std::vector<Call> batch_;
};

}  // namespace

std::unique_ptr<Communicator> ProcessWorld::create_group(const std::string& name,
                                                         const std::vector<Rank>& ranks) {
  check_group(name, ranks, place_.size);
  GroupPlace group{name, ranks, link_.create_group(name, ranks), 0};
  const auto me = std::find(ranks.begin(), ranks.end(), place_.rank);
  if (me == ranks.end()) return nullptr;
  group.position = static_cast<int>(me - ranks.begin());
  // MPI and NCCL wait for all members without limit; here a missing one is named in time.
  link_.collective(group, {annotation_.phase, "creating the group"}, Call{});
  auto channel = transport_.open(group);
  return std::make_unique<ProcessCommunicator>(std::move(group), *this, link_, std::move(channel));
}

void ProcessWorld::abort(const std::string& reason) {
  throw CommError(CommReason::cancelled,
                  fmt::format("rank {} ended the run: {}", place_.rank.value, reason), place_.rank);
}

}  // namespace s2t
