// The place where ranks that are processes meet: it hears every call before it is made.
//
// Known here: one connection per rank, and a thread that speaks for it at the same `Rendezvous`
// that ranks as threads use. So processes get the same strictness and the same words: a rank's call
// starts only when all its partners have announced a call that fits. Not known here: MPI, NCCL, and
// any tensor: no data comes this way, only announcements, small keys and the body's result.
//
// The judge sits in the launcher, or beside rank 0 when somebody else started the ranks.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/comm/outcome.h"
#include "runtime/comm/rendezvous.h"
#include "runtime/comm/wire.h"

namespace s2t {

// What a rank asks. Each request is one frame and gets one reply: 1 (go), or 0 and the CommError.
enum class Request : uint8_t {
  hello,         // token, rank, world size, process id
  create_group,  // name, ranks -> index
  collective,    // annotation, group index, position, call
  messages,      // annotation, group index, position, calls
  check_alive,
  come_to,  // annotation of the next call; else as check_alive
  put,      // key, value: small things that one rank tells others
  get,      // key -> value, waits for it
  fail,     // reason, culprit, text: this rank is at its end; answered when all have spoken
  finish,   // the body's result
  leave     // MPI or NCCL is closed too: nothing can go wrong any more
};

void put_call(Packet& packet, const Call& call);
Call get_call(Packet& packet);
void put_error(Packet& packet, const CommError& error);
CommError get_error(Packet& packet);

struct Obituary {
  Rank rank;
  std::string how;
};

class Judge {
 public:
  // What can be known beside what ranks say: nothing, where they are on several machines; whether
  // their processes sleep; or also how they end, which the launcher tells.
  enum class Sight : uint8_t { none, processes, ends };
  Judge(int world_size, std::chrono::milliseconds timeout, Listener listener, std::string token,
        Sight sight);
  ~Judge();  // ends every conversation

  int port() const { return port_; }
  std::vector<Rank> missing() const;  // have not joined
  bool failed() const;
  bool over() const;          // every rank has finished, failed or gone
  bool nobody_hears() const;  // every rank that is not at its end sleeps or has not joined

  // Seen from outside: a failure of no rank in particular, and how the process that carried these
  // ranks ended ("" if it ended well), perhaps with the one of them whose end was the reason.
  void fail(const CommError& error);
  void ended(const std::vector<Rank>& ranks, const std::string& how,
             const std::optional<Obituary>& first);
  // Fails if a rank has slept for as long as any rank may wait: it may hold up those that cannot
  // tell, because MPI or NCCL is making a group for them.
  void look_for_sleepers();

  RunResult result() const;  // once it is over

 private:
  enum class State : uint8_t { expected, joined, finished, left, failed };
  struct Seat {
    State state = State::expected;
    RankOutcome outcome;
    Descriptor connection;
    std::optional<std::string> how_ended;
  };

  void accept_all();
  void converse(Descriptor connection);
  void listen_to(Rank rank);
  void hang_up(Rank rank, const std::string& why);
  std::optional<Rank> welcome(Descriptor connection);
  Packet answer(Rank rank, Request request, Packet& packet);
  Packet carry_out(Rank rank, Request request, Packet& packet);
  void announce(Rank rank, Request request, Packet& packet);
  std::string get(const std::string& key);
  CommError cause_of(const CommError& said);
  void fail_rank(Rank rank, const CommError& error);
  void gone(Rank rank);
  void await_last_words(const std::vector<Rank>& ranks);
  void bury(Rank rank);
  void close(Rank rank, const CommError& error);
  void wait_until_all_left();
  void wait_for_the_others();
  bool sleeps(Rank rank) const;

  const Sight sight_;
  std::vector<std::atomic<pid_t>> processes_;  // by rank; 0: not known
  Rendezvous meet_;
  const std::chrono::milliseconds timeout_;
  const Listener listener_;
  const int port_;
  const std::string token_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Seat> seats_;  // by rank
  std::map<std::string, std::string> keys_;
  std::optional<Rank> first_gone_;  // without a word
  std::optional<std::chrono::steady_clock::time_point> asleep_since_;
  bool closing_ = false;

  std::vector<std::thread> conversations_;
  std::thread acceptor_;
};

}  // namespace s2t
