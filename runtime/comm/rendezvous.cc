#include "runtime/comm/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/text.h"
#include "runtime/comm/backend.h"

namespace s2t {
namespace {

// A signal handler cannot notify a condition variable, so waits look up this often.
constexpr std::chrono::milliseconds kGlance{50};

double seconds(std::chrono::milliseconds t) {
  return static_cast<double>(t.count()) / 1000.0;
}

}  // namespace

Rendezvous::Rendezvous(int world_size, std::chrono::milliseconds timeout, Execute execute,
                       Stopped stopped)
    : timeout_(timeout),
      execute_(execute),
      stopped_(std::move(stopped)),
      places_(static_cast<size_t>(world_size)) {}

Rendezvous::Group& Rendezvous::create_group(Rank rank, const std::string& name,
                                            const std::vector<Rank>& ranks) {
  const Lock lock(mutex_);
  throw_if_dead();
  const size_t index = places_[rank.at()].groups_created++;
  if (index == groups_.size()) {
    groups_.push_back(std::make_unique<Group>());
    groups_.back()->index = index;
    groups_.back()->name = name;
    groups_.back()->ranks = ranks;
    groups_.back()->arrived.assign(ranks.size(), nullptr);
  }
  Group& group = *groups_[index];
  if (group.name == name && group.ranks == ranks) return group;
  fail_locked(
      {CommReason::mismatch,
       fmt::format("the ranks create different groups: as number {} rank {} creates {} of {} "
                   "ranks where another created {} of {}",
                   index, rank.value, quoted(name), ranks.size(), quoted(group.name),
                   group.ranks.size())},
      rank);
  throw *dead_;
}

Rendezvous::Group& Rendezvous::group(size_t index) {
  const Lock lock(mutex_);
  if (index < groups_.size()) return *groups_[index];
  throw CommError(CommReason::transport, fmt::format("there is no group number {}", index));
}

void Rendezvous::collective(Rank rank, Group& group, int position, const Call& call) {
  Lock lock(mutex_);
  throw_if_dead();
  note(rank, group, call);
  check_collective(group, position, call);
  throw_if_dead();
  group.arrived[static_cast<size_t>(position)] = &call;
  if (++group.present == group.ranks.size()) return run(lock, rank, group);
  wait(lock, rank, group, position);
}

// The last to arrive does the work for all; the others sleep, so their buffers hold still.
void Rendezvous::run(Lock& lock, Rank rank, Group& group) {
  const std::vector<const Call*> calls = group.arrived;
  group.executing = true;
  lock.unlock();
  std::exception_ptr thrown;
  try {
    if (execute_ != nullptr) execute_(calls);
  } catch (...) {
    thrown = std::current_exception();
  }
  lock.lock();
  group.executing = false;
  if (thrown) std::rethrow_exception(thrown);  // the caller reports it; the others wake by that
  std::fill(group.arrived.begin(), group.arrived.end(), nullptr);
  group.present = 0;
  for (const Rank member : group.ranks)
    if (member != rank) release(member);
}

void Rendezvous::messages(Rank rank, Group& group, int position, std::span<const Call> calls) {
  Lock lock(mutex_);
  throw_if_dead();
  const auto batch = std::make_shared<Group::Batch>();
  batch->unfinished = calls.size();
  batch->held = true;
  for (const Call& call : calls) {
    note(rank, group, call);
    const bool sends = call.op == CommOp::send;
    post(group,
         {call, sends ? position : call.peer, sends ? call.peer : position, position, batch});
  }
  if (dead_) withdraw(group, position);
  throw_if_dead();
  if (batch->held && batch->unfinished != 0) wait(lock, rank, group, position);
}

void Rendezvous::post(Group& group, Group::Message message) {
  if (dead_ || deliver(group, message)) return;
  group.messages.push_back(message);
  const int peer = message.call.peer;
  const Call* busy = group.arrived[static_cast<size_t>(peer)];
  if (busy != nullptr && peer != message.owner)
    fail_locked(mismatch(group, message.owner, message.call, peer, *busy),
                group.ranks[static_cast<size_t>(message.owner)]);
}

// Pairs a message with the oldest one waiting for it; messages between two ranks keep their order.
bool Rendezvous::deliver(Group& group, const Group::Message& message) {
  const auto other =
      std::find_if(group.messages.begin(), group.messages.end(), [&](const Group::Message& m) {
        return m.from == message.from && m.to == message.to && m.call.op != message.call.op;
      });
  if (other == group.messages.end()) return false;
  const bool sends = message.call.op == CommOp::send;
  const Call& send = sends ? message.call : other->call;
  const Call& recv = sends ? other->call : message.call;
  if (send.count != recv.count || send.dtype != recv.dtype) {
    fail_locked(mismatch(group, message.from, send, message.to, recv),
                group.ranks[static_cast<size_t>(message.owner)]);
    return true;
  }
  if (execute_ != nullptr && send.count != 0)
    std::copy_n(static_cast<const std::byte*>(send.in),
                checked_mul(send.count, size_of(send.dtype)), static_cast<std::byte*>(recv.out));
  delivered_one_of(group, message);
  delivered_one_of(group, *other);
  group.messages.erase(other);
  return true;
}

void Rendezvous::delivered_one_of(Group& group, const Group::Message& message) {
  Group::Batch& batch = *message.batch;
  --batch.unfinished;
  const bool moved_by_others = execute_ == nullptr;
  if (!batch.held || (batch.unfinished != 0 && !moved_by_others)) return;
  batch.held = false;
  release(group.ranks[static_cast<size_t>(message.owner)]);
}

void Rendezvous::wait(Lock& lock, Rank rank, Group& group, int position) {
  using Clock = std::chrono::steady_clock;
  Place& me = places_[rank.at()];
  me.blocked = true;
  ++blocked_;
  fail_if_nobody_can_go_on(rank);
  const auto deadline = Clock::now() + timeout_;
  while (me.blocked) {
    if (!group.executing) {
      if (cancel_requested()) fail_locked({CommReason::cancelled, kCancelled}, rank);
      if (!dead_ && Clock::now() >= deadline) fail_locked(timeout(rank, group), rank);
      if (dead_) {
        withdraw(group, position);
        release(rank);
        throw *dead_;
      }
    }
    me.wake.wait_for(lock, kGlance);
  }
}

void Rendezvous::release(Rank rank) {
  Place& place = places_[rank.at()];
  if (!place.blocked) return;
  place.blocked = false;
  --blocked_;
  place.wake.notify_one();
}

void Rendezvous::withdraw(Group& group, int position) {
  group.messages.remove_if([&](const Group::Message& m) { return m.owner == position; });
  const Call*& mine = group.arrived[static_cast<size_t>(position)];
  if (mine != nullptr) --group.present;
  mine = nullptr;
}

void Rendezvous::check_collective(const Group& group, int position, const Call& call) {
  const Rank rank = group.ranks[static_cast<size_t>(position)];
  for (size_t r = 0; r < group.arrived.size(); ++r) {
    const Call* other = group.arrived[r];
    if (other != nullptr && !agree(*other, static_cast<int>(r), call, position))
      return fail_locked(mismatch(group, static_cast<int>(r), *other, position, call), rank);
  }
  for (const Group::Message& m : group.messages)
    if (m.call.peer == position)
      return fail_locked(mismatch(group, m.owner, m.call, position, call), rank);
}

void Rendezvous::fail_if_nobody_can_go_on(Rank found_by) {
  if (dead_ || blocked_ == 0 || blocked_ + finished_ != static_cast<int>(places_.size())) return;
  std::string text = "no rank can go on:";
  for (size_t r = 0; r < places_.size(); ++r)
    text +=
        fmt::format("{} rank {} {} {}", r == 0 ? "" : ";", r,
                    places_[r].finished ? "has ended after" : "waits in", doing_locked(Rank(r)));
  fail_locked({CommReason::mismatch, text}, found_by);
}

void Rendezvous::check_alive() {
  const Lock lock(mutex_);
  if (cancel_requested()) fail_locked({CommReason::cancelled, kCancelled}, Rank(0));
  throw_if_dead();
}

void Rendezvous::annotate(Rank rank, const Annotation& annotation) {
  const Lock lock(mutex_);
  places_[rank.at()].annotation = annotation;
}

void Rendezvous::fail(const CommError& error, Rank found_by) {
  const Lock lock(mutex_);
  fail_locked(error, found_by);
}

void Rendezvous::finish(Rank rank) {
  const Lock lock(mutex_);
  if (std::exchange(places_[rank.at()].finished, true)) return;
  ++finished_;
  fail_if_nobody_can_go_on(rank);
}

std::string Rendezvous::whereabouts(Rank rank) const {
  const Lock lock(mutex_);
  return whereabouts_locked(rank);
}

std::string Rendezvous::whereabouts_locked(Rank rank) const {
  const Place& place = places_[rank.at()];
  const std::string& next = place.annotation.label;
  if (next.empty() || next == place.label) return "in " + doing_locked(rank);
  return fmt::format("before {}, after {}", next, doing_locked(rank));
}

Rank Rendezvous::found_by() const {
  const Lock lock(mutex_);
  return found_by_;
}

std::optional<CommError> Rendezvous::dead() const {
  const Lock lock(mutex_);
  return dead_;
}

void Rendezvous::throw_if_dead() {
  if (dead_) throw *dead_;
}

void Rendezvous::fail_locked(const CommError& error, Rank found_by) {
  if (dead_) return;
  dead_ = error;
  found_by_ = found_by;
  for (Place& place : places_) place.wake.notify_all();
}

void Rendezvous::note(Rank rank, const Group& group, const Call& call) {
  Place& place = places_[rank.at()];
  place.last = fmt::format("{} on {}", to_string(call), quoted(group.name));
  place.label = place.annotation.label;
}

std::string Rendezvous::doing_locked(Rank rank) const {
  const Place& place = places_[rank.at()];
  const std::string call = place.last.empty() ? "its start" : place.last;
  return place.label.empty() ? call : fmt::format("{} [{}]", call, place.label);
}

CommError Rendezvous::mismatch(const Group& group, int a, const Call& call_a, int b,
                               const Call& call_b) const {
  const auto said = [&](int position, const Call& call) {
    const Rank rank = group.ranks[static_cast<size_t>(position)];
    const std::string& label = places_[rank.at()].annotation.label;
    return fmt::format("rank {} issues {}{}", rank.value, to_string(call),
                       label.empty() ? "" : fmt::format(" [{}]", label));
  };
  return {CommReason::mismatch, fmt::format("operations on {} do not fit: {}; {}",
                                            quoted(group.name), said(a, call_a), said(b, call_b))};
}

CommError Rendezvous::timeout(Rank rank, const Group& group) const {
  Blame blame = sleepers_locked();
  const bool somebody_sleeps = blame.culprit.valid();
  for (const Rank member : group.ranks) {
    if (somebody_sleeps || places_[member.at()].blocked) continue;
    if (!blame.culprit.valid()) blame.culprit = member;
    blame.text +=
        fmt::format("; rank {} is missing, last seen {}", member.value, whereabouts_locked(member));
  }
  return {CommReason::timeout,
          fmt::format("rank {} waited {} s in {}{}", rank.value, seconds(timeout_),
                      doing_locked(rank), blame.text),
          blame.culprit};
}

Rendezvous::Blame Rendezvous::sleepers() const {
  const Lock lock(mutex_);
  return sleepers_locked();
}

Rendezvous::Blame Rendezvous::sleepers_locked() const {
  Blame blame;
  for (size_t r = 0; stopped_ && r < places_.size(); ++r) {
    if (!stopped_(Rank(r))) continue;
    if (!blame.culprit.valid()) blame.culprit = Rank(r);
    blame.text += fmt::format("; rank {} was stopped by a signal, last seen {}", r,
                              whereabouts_locked(Rank(r)));
  }
  return blame;
}

}  // namespace s2t
