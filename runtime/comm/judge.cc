#include "runtime/comm/judge.h"

#include <fmt/format.h>
#include <sys/socket.h>

namespace s2t {
namespace {

using namespace std::chrono_literals;

constexpr auto kGlance = 50ms;     // how often a wait looks up for what cannot wake it
constexpr auto kGrace = 1s;        // for the others to hear of a failure before a rank may leave
constexpr auto kObituary = 500ms;  // for the launcher to say how a process ended

Annotation get_annotation(Packet& packet) {
  Annotation annotation;
  annotation.phase = packet.get_text();
  annotation.label = packet.get_text();
  return annotation;
}

}  // namespace

void put_call(Packet& packet, const Call& call) {
  packet.put(call.op).put(call.count).put(call.dtype).put(call.reduce).put(call.peer);
  packet.put_list(call.sends).put_list(call.recvs);
}

Call get_call(Packet& packet) {
  Call call;
  call.op = packet.get<CommOp>();
  call.count = packet.get<Count>();
  call.dtype = packet.get<DType>();
  call.reduce = packet.get<ReduceOp>();
  call.peer = packet.get<int>();
  call.sends = packet.get_list<Count>();
  call.recvs = packet.get_list<Count>();
  return call;
}

void put_error(Packet& packet, const CommError& error) {
  packet.put(error.reason()).put(error.culprit()).put_text(error.what());
}

CommError get_error(Packet& packet) {
  const auto reason = packet.get<CommReason>();
  const auto culprit = packet.get<Rank>();
  return {reason, packet.get_text(), culprit};
}

Judge::Judge(int world_size, std::chrono::milliseconds timeout, Listener listener,
             std::string token)
    : meet_(world_size, timeout, nullptr),
      timeout_(timeout),
      listener_(std::move(listener)),
      port_(listener_.port),
      token_(std::move(token)),
      seats_(static_cast<size_t>(world_size)),
      acceptor_([this] { accept_all(); }) {}

Judge::~Judge() {
  meet_.fail({CommReason::cancelled, "the run is over"}, Rank(0));
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    for (const Seat& seat : seats_)
      if (seat.connection.open()) ::shutdown(seat.connection.get(), SHUT_RDWR);
  }
  changed_.notify_all();
  acceptor_.join();
  for (std::thread& t : conversations_) t.join();
}

void Judge::accept_all() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (closing_) return;
    }
    auto connection = accept_from(listener_.socket, kGlance);
    if (!connection) continue;
    // Owned by the acceptor's thread until it has ended; the destructor joins it first.
    conversations_.emplace_back([this, c = std::make_shared<Descriptor>(std::move(*connection))] {
      converse(std::move(*c));
    });
  }
}

// A rank introduces itself, or the connection is dropped: it is nobody we expect.
std::optional<Rank> Judge::welcome(Descriptor connection) {
  limit_receive(connection, 5s);
  auto hello = receive_frame(connection);
  limit_receive(connection, 0s);
  if (!hello || hello->get<Request>() != Request::hello || hello->get_text() != token_)
    return std::nullopt;
  const auto rank = hello->get<Rank>();
  const auto size = hello->get<int>();
  const std::lock_guard lock(mutex_);
  if (closing_ || size != static_cast<int>(seats_.size()) || rank.value < 0 || rank.value >= size ||
      seats_[rank.at()].state != State::expected)
    return std::nullopt;
  seats_[rank.at()].connection = std::move(connection);
  seats_[rank.at()].state = State::joined;
  send_frame(seats_[rank.at()].connection, Packet().put<uint8_t>(1));
  return rank;
}

void Judge::converse(Descriptor connection) {
  std::optional<Rank> rank;
  try {
    rank = welcome(std::move(connection));
  } catch (const CommError&) {
    return;  // not one of our frames
  }
  if (!rank) return;
  const Descriptor& peer = seats_[rank->at()].connection;
  while (auto packet = receive_frame(peer)) {
    const auto request = packet->get<Request>();
    const bool last = request == Request::finish || request == Request::fail;
    if (!send_frame(peer, answer(*rank, request, *packet)) || last) break;
  }
  gone(*rank);
}

Packet Judge::answer(Rank rank, Request request, Packet& packet) {
  try {
    return carry_out(rank, request, packet);
  } catch (const CommError& error) {
    Packet reply;
    reply.put<uint8_t>(0);
    put_error(reply, error);
    return reply;
  }
}

Packet Judge::carry_out(Rank rank, Request request, Packet& packet) {
  Packet reply;
  reply.put<uint8_t>(1);
  switch (request) {
    case Request::hello:
      throw CommError(CommReason::transport, "a rank said hello twice");
    case Request::create_group: {
      const std::string name = packet.get_text();
      reply.put(meet_.create_group(rank, name, packet.get_list<Rank>()).index);
      break;
    }
    case Request::collective:
    case Request::messages:
      announce(rank, request, packet);
      break;
    case Request::check_alive:
      meet_.check_alive();
      break;
    case Request::put: {
      const std::string key = packet.get_text();
      const std::lock_guard lock(mutex_);
      keys_[key] = packet.get_text();
      changed_.notify_all();
      break;
    }
    case Request::get:
      reply.put_text(get(packet.get_text()));
      break;
    case Request::fail: {
      const CommError error = cause_of(get_error(packet));
      if (const Annotation next = get_annotation(packet); !next.label.empty())
        meet_.annotate(rank, next);
      fail_rank(rank, error);
      wait_for_the_others();
      break;
    }
    case Request::finish: {
      const std::lock_guard lock(mutex_);
      seats_[rank.at()].outcome.result = packet.get_text();
      seats_[rank.at()].state = State::finished;
      changed_.notify_all();
      break;
    }
  }
  if (request == Request::finish) meet_.finish(rank);
  return reply;
}

void Judge::announce(Rank rank, Request request, Packet& packet) {
  meet_.annotate(rank, get_annotation(packet));
  Rendezvous::Group& group = meet_.group(packet.get<size_t>());
  const auto position = packet.get<int>();
  if (request == Request::collective)
    return meet_.collective(rank, group, position, get_call(packet));
  std::vector<Call> calls(packet.get<size_t>());
  for (Call& call : calls) call = get_call(packet);
  meet_.messages(rank, group, position, calls);
}

std::string Judge::get(const std::string& key) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  std::unique_lock lock(mutex_);
  while (!keys_.contains(key)) {
    if (std::chrono::steady_clock::now() >= deadline)
      throw CommError(CommReason::timeout, fmt::format("nobody has said what \"{}\" is", key));
    lock.unlock();
    meet_.check_alive();
    lock.lock();
    if (!keys_.contains(key)) changed_.wait_for(lock, kGlance);
  }
  return keys_[key];
}

// What a rank says of its own end: an exception of its body, or, first of all, that MPI, NCCL or
// CUDA refused or did not end a call. It is told with where the rank stood.
void Judge::fail_rank(Rank rank, const CommError& said) {
  const bool died = said.reason() == CommReason::died && said.culprit() == rank;
  const bool own = died || (!meet_.dead() && !said.culprit().valid());
  const CommError error =
      own ? CommError(said.reason(),
                      fmt::format("rank {} {}{}: {}", rank.value, died ? "died " : "",
                                  meet_.whereabouts(rank), said.what()),
                      rank)
          : said;
  meet_.fail(error, rank);
  {
    const std::lock_guard lock(mutex_);
    seats_[rank.at()].outcome.failure = {rank, error.reason(), error.what()};
    seats_[rank.at()].state = State::failed;
  }
  meet_.finish(rank);
  changed_.notify_all();
}

// What looks like a fault of MPI or NCCL may be the end of a partner, of which we hear a moment
// later.
CommError Judge::cause_of(const CommError& said) {
  if (said.reason() != CommReason::transport || said.culprit().valid()) return said;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kObituary, [&] { return closing_ || meet_.dead().has_value(); });
  return meet_.dead().value_or(said);
}

// The connection broke. If the launcher can say how the process ended, that is worth a moment.
void Judge::gone(Rank rank) {
  std::string how;
  {
    std::unique_lock lock(mutex_);
    Seat& seat = seats_[rank.at()];
    if (seat.state != State::joined) return;
    changed_.wait_for(lock, kObituary, [&] { return closing_ || seat.how_ended.has_value(); });
    how = seat.how_ended.value_or("");
  }
  const auto dead = meet_.dead();
  const std::string what = how.empty() ? "its process ended" : how;
  fail_rank(rank, dead ? CommError(dead->reason(),
                                   fmt::format("rank {} was stopped ({}) because of: {}",
                                               rank.value, what, dead->what()),
                                   dead->culprit())
                       : CommError(CommReason::died, what, rank));
}

void Judge::wait_for_the_others() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kGrace, [&] {
    for (const Seat& seat : seats_)
      if (seat.state == State::joined) return closing_;
    return true;
  });
}

bool Judge::everybody_joined() const {
  const std::lock_guard lock(mutex_);
  for (const Seat& seat : seats_)
    if (seat.state == State::expected) return false;
  return true;
}

bool Judge::failed() const {
  return meet_.dead().has_value();
}

bool Judge::over() const {
  const std::lock_guard lock(mutex_);
  for (const Seat& seat : seats_)
    if (seat.state == State::expected || seat.state == State::joined) return false;
  return true;
}

void Judge::fail(const CommError& error) {
  meet_.fail(error, error.culprit().valid() ? error.culprit() : Rank(0));
}

void Judge::ended(Rank rank, const std::string& how) {
  State state;
  {
    const std::lock_guard lock(mutex_);
    seats_[rank.at()].how_ended = how;
    state = seats_[rank.at()].state;
  }
  changed_.notify_all();
  if (state == State::expected)
    fail_rank(rank, {CommReason::died,
                     "its process ended before it joined" + (how.empty() ? "" : ": " + how), rank});
  if (state == State::finished && !how.empty())
    fail_rank(rank, {CommReason::died, how + " after it had finished", rank});
}

RunResult Judge::result() const {
  const std::lock_guard lock(mutex_);
  std::vector<RankOutcome> outcomes;
  for (const Seat& seat : seats_) outcomes.push_back(seat.outcome);
  return gather(std::move(outcomes), meet_.found_by());
}

}  // namespace s2t
