#include "runtime/comm/judge.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <new>

#include "runtime/comm/children.h"

namespace s2t {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kLargestHello = 4096;  // bytes of the first frame, of whoever it is
constexpr auto kGlance = 50ms;            // how often a wait looks up for what cannot wake it
constexpr auto kGrace = 1s;        // for the others to hear of a failure before a rank may leave
constexpr auto kObituary = 500ms;  // for the end of a partner to be heard of
constexpr auto kToSayHello = 60s;  // a busy machine may halt a rank right after it has connected
constexpr auto kFarewell = 5s;     // for the others to close MPI or NCCL
constexpr auto kLastWords = 3s;    // for the launcher to say how a process ended, and who was first

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
             std::string token, Sight sight)
    : sight_(sight),
      processes_(static_cast<size_t>(world_size)),
      meet_(world_size, timeout, nullptr, [this](Rank r) { return sleeps(r); }),
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
  const auto deadline = std::chrono::steady_clock::now() + kToSayHello;
  while (!readable(connection, kGlance)) {
    const std::lock_guard lock(mutex_);
    if (closing_ || std::chrono::steady_clock::now() > deadline) return std::nullopt;
  }
  limit_receive(connection, 5s);
  auto hello = receive_frame(connection, kLargestHello);
  limit_receive(connection, 0s);
  if (!hello || hello->get<Request>() != Request::hello || hello->get_text() != token_)
    return std::nullopt;
  const auto rank = hello->get<Rank>();
  const auto size = hello->get<int>();
  const auto process = hello->get<pid_t>();
  const std::lock_guard lock(mutex_);
  if (closing_ || size != static_cast<int>(seats_.size()) || rank.value < 0 || rank.value >= size ||
      seats_[rank.at()].state != State::expected)
    return std::nullopt;
  seats_[rank.at()].connection = std::move(connection);
  seats_[rank.at()].state = State::joined;
  if (sight_ != Sight::none) processes_[rank.at()] = process;
  send_frame(seats_[rank.at()].connection, Packet().put<uint8_t>(1));
  return rank;
}

void Judge::converse(Descriptor connection) {
  std::optional<Rank> rank;
  try {
    rank = welcome(std::move(connection));
    if (rank) listen_to(*rank);
  } catch (const std::bad_alloc&) {
    if (rank) hang_up(*rank, "out of memory for what it says");
  } catch (const std::exception& error) {  // a stranger's frames are no matter
    if (rank) hang_up(*rank, std::string("what it says is not understood: ") + error.what());
  }
}

void Judge::listen_to(Rank rank) {
  const Descriptor& peer = seats_[rank.at()].connection;
  while (auto packet = receive_frame(peer)) {
    const auto request = packet->get<Request>();
    const bool last = request == Request::leave || request == Request::fail;
    if (!send_frame(peer, answer(rank, request, *packet)) || last) break;
  }
  gone(rank);
}

void Judge::hang_up(Rank rank, const std::string& why) {
  fail_rank(rank, {CommReason::died, why, rank});
  ::shutdown(seats_[rank.at()].connection.get(), SHUT_RDWR);
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
    case Request::come_to:
      meet_.annotate(rank, get_annotation(packet));
      [[fallthrough]];
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
    case Request::finish:
    case Request::leave: {
      const std::lock_guard lock(mutex_);
      Seat& seat = seats_[rank.at()];
      if (request == Request::finish) seat.outcome.result = packet.get_text();
      seat.state = request == Request::finish ? State::finished : State::left;
      changed_.notify_all();
      break;
    }
  }
  if (request == Request::leave) wait_until_all_left();
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
  close(rank, error);
}

// This rank is at its end because of `error`.
void Judge::close(Rank rank, const CommError& error) {
  {
    const std::lock_guard lock(mutex_);
    if (seats_[rank.at()].state == State::failed) return;
    seats_[rank.at()].outcome.failure = {rank, error.reason(), error.what()};
    seats_[rank.at()].state = State::failed;
  }
  meet_.finish(rank);
  changed_.notify_all();
}

// What looks like a fault of MPI or NCCL may be the end of a partner, of which we hear a moment
// later, or a partner that sleeps.
CommError Judge::cause_of(const CommError& said) {
  if (said.culprit().valid()) return said;
  if (const auto blame = meet_.sleepers();
      said.reason() == CommReason::timeout && blame.culprit.valid())
    return {said.reason(), std::string(said.what()) + blame.text, blame.culprit};
  if (said.reason() != CommReason::transport) return said;
  std::unique_lock lock(mutex_);
  const auto known = [&] { return closing_ || meet_.dead().has_value(); };
  changed_.wait_for(lock, kObituary, [&] { return known() || first_gone_; });
  if (first_gone_) changed_.wait_for(lock, kLastWords, known);
  return meet_.dead().value_or(said);
}

// The connection broke, and the rank had not said that it would leave. The launcher will tell how
// the process ended. The first to go is the one that died: its end may end others, and a launcher
// that carries several ranks ends them all.
void Judge::gone(Rank rank) {
  {
    std::unique_lock lock(mutex_);
    Seat& seat = seats_[rank.at()];
    const auto over = [&] { return closing_ || meet_.dead().has_value(); };
    if (closing_ || (seat.state != State::joined && seat.state != State::finished)) return;
    if (!first_gone_) first_gone_ = rank;
    changed_.notify_all();
    if (sight_ == Sight::ends)
      changed_.wait_for(lock, kLastWords, [&] { return over() || seat.how_ended.has_value(); });
    if (first_gone_ != rank) changed_.wait_for(lock, kLastWords, over);
  }
  bury(rank);
}

// A rank whose process has ended: why that is so, unless its work was done.
void Judge::bury(Rank rank) {
  State state;
  std::string how;
  {
    const std::lock_guard lock(mutex_);
    state = seats_[rank.at()].state;
    how = seats_[rank.at()].how_ended.value_or("");
  }
  if (state == State::failed) return;
  const bool worked = state == State::finished || state == State::left;
  if (const auto dead = meet_.dead()) {
    if (!worked) close(rank, *dead);
    return;
  }
  std::string what = how.empty() ? "its process ended" : how;
  if (worked) what += " after it had finished";
  if (state == State::expected)
    what = "its process ended before it joined" + (how.empty() ? "" : ": " + how);
  fail_rank(rank, {CommReason::died, what, rank});
}

// mpirun may take the end of a process for a crash while others still close MPI: it hears of both
// by different ways, and on a busy machine in the wrong order. So nobody goes before all are ready.
void Judge::wait_until_all_left() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kFarewell, [&] {
    return closing_ || meet_.dead() ||
           std::all_of(seats_.begin(), seats_.end(),
                       [](const Seat& seat) { return seat.state == State::left; });
  });
}

void Judge::wait_for_the_others() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kGrace, [&] {
    for (const Seat& seat : seats_)
      if (seat.state == State::joined) return closing_;
    return true;
  });
}

std::vector<Rank> Judge::missing() const {
  const std::lock_guard lock(mutex_);
  std::vector<Rank> ranks;
  for (size_t r = 0; r < seats_.size(); ++r)
    if (seats_[r].state == State::expected) ranks.emplace_back(r);
  return ranks;
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

// What ranks said themselves, or did not say when their connection broke, tells more.
void Judge::await_last_words(const std::vector<Rank>& ranks) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kLastWords, [&] {
    return closing_ || meet_.dead() || std::none_of(ranks.begin(), ranks.end(), [&](Rank r) {
             return seats_[r.at()].state == State::joined ||
                    seats_[r.at()].state == State::finished;
           });
  });
}

void Judge::ended(const std::vector<Rank>& ranks, const std::string& how,
                  const std::optional<Obituary>& noticed) {
  const bool ours = noticed && std::find(ranks.begin(), ranks.end(), noticed->rank) != ranks.end();
  std::optional<Obituary> first = ours ? noticed : std::nullopt;
  {
    const std::lock_guard lock(mutex_);
    // mpirun does not always say who was first. One that has joined tells why it ends.
    const auto silent = std::find_if(ranks.begin(), ranks.end(), [&](Rank r) {
      return seats_[r.at()].state == State::expected;
    });
    if (!first && !how.empty() && silent != ranks.end()) first = Obituary{*silent, how};
    for (const Rank r : ranks)
      seats_[r.at()].how_ended = first && first->rank == r ? first->how : how;
    if (first) first_gone_ = first->rank;
  }
  changed_.notify_all();
  if (first) bury(first->rank);
  await_last_words(ranks);
  for (const Rank r : ranks) {
    State state;
    {
      const std::lock_guard lock(mutex_);
      state = seats_[r.at()].state;
    }
    // What mpirun says of ranks that had all closed MPI is only believed where a signal ended one.
    const bool crashed = state == State::left && !how.empty() && (first || ranks.size() == 1);
    if (state == State::expected || crashed) bury(r);
  }
}

bool Judge::sleeps(Rank rank) const {
  const pid_t process = processes_[rank.at()];
  return process > 0 && is_stopped(process);
}

void Judge::look_for_sleepers() {
  const auto now = std::chrono::steady_clock::now();
  const auto blame = meet_.sleepers();
  if (!blame.culprit.valid()) return asleep_since_.reset();
  if (!asleep_since_) asleep_since_ = now;
  if (now - *asleep_since_ >= timeout_)
    fail({CommReason::timeout,
          fmt::format("the ranks waited {} s{}", static_cast<double>(timeout_.count()) / 1000,
                      blame.text),
          blame.culprit});
}

bool Judge::nobody_hears() const {
  const std::lock_guard lock(mutex_);
  for (size_t r = 0; r < seats_.size(); ++r)
    if (seats_[r].state == State::joined && !sleeps(Rank(r))) return false;
  return true;
}

RunResult Judge::result() const {
  const std::lock_guard lock(mutex_);
  std::vector<RankOutcome> outcomes;
  for (const Seat& seat : seats_) outcomes.push_back(seat.outcome);
  RunResult result = gather(std::move(outcomes), meet_.found_by());
  if (const auto dead = meet_.dead(); dead && result.ok())  // when every rank had done its work
    result.failures.push_back({meet_.found_by(), dead->reason(), dead->what()});
  return result;
}

}  // namespace s2t
