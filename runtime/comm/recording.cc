#include "runtime/comm/recording.h"

namespace s2t {
namespace {

class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(std::unique_ptr<Communicator> inner, const World& world,
                        Recording& recording)
      : inner_(std::move(inner)), world_(world), recording_(recording) {}

  int rank() const override { return inner_->rank(); }
  std::span<const Rank> ranks() const override { return inner_->ranks(); }
  const std::string& name() const override { return inner_->name(); }
  Device& device() override { return inner_->device(); }

  void group_begin() override {
    if (depth_++ == 0) batch_ = recording_.batches++;
    inner_->group_begin();
  }

  // A batch completes as a whole: its calls return before anything was delivered.
  void group_end() override {
    inner_->group_end();
    if (--depth_ != 0) return;
    for (const size_t i : open_) recording_.calls[i].completed = true;
    open_.clear();
  }

  void issue(const Call& call) override {
    const size_t index = recording_.calls.size();
    recording_.calls.push_back(record(call, index));
    inner_->issue(call);
    if (depth_ != 0)
      open_.push_back(index);
    else
      recording_.calls[index].completed = true;
  }

 private:
  RecordedCall record(const Call& call, size_t seq) const {
    RecordedCall r;
    r.seq = seq;
    r.op = call.op;
    r.group = name();
    r.ranks.assign(ranks().begin(), ranks().end());
    r.count = call.count;
    r.dtype = call.dtype;
    r.reduce = call.reduce;
    r.input_bytes = input_bytes(call, size());
    r.output_bytes = output_bytes(call, size());
    r.sends = call.sends;
    r.recvs = call.recvs;
    if (call.peer >= 0 && call.peer < size()) r.peer = ranks()[static_cast<size_t>(call.peer)];
    r.batch = depth_ != 0 ? batch_ : -1;
    r.annotation = world_.annotation();
    return r;
  }

  std::unique_ptr<Communicator> inner_;
  const World& world_;
  Recording& recording_;
  int depth_ = 0;
  int batch_ = -1;
  std::vector<size_t> open_;  // calls of the batch that is being put together
};

}  // namespace

std::unique_ptr<Communicator> RecordingWorld::create_group(const std::string& name,
                                                           const std::vector<Rank>& ranks) {
  auto inner = inner_.create_group(name, ranks);
  if (inner == nullptr) return nullptr;
  return std::make_unique<RecordingCommunicator>(std::move(inner), inner_, recording_);
}

}  // namespace s2t
