// Where ranks meet: who has issued what, who waits, and whether anyone still can.
//
// Known here: the calls of every group at this moment, under one lock. That makes three things
// exact instead of a matter of patience: calls that do not fit are named when the second arrives,
// a world in which nobody can go on is found when the last rank starts to wait, and the first
// failure is the one that all ranks hear. Ranks are threads that call in: of the ranks themselves
// (host), or of the launcher, each speaking for one process (judge.h). Not known here: sockets, and
// how data moves where it does not move here.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace s2t {

class Rendezvous {
 public:
  struct Group {
    std::string name;
    std::vector<Rank> ranks;
    size_t index = 0;  // in creation order

   private:
    friend class Rendezvous;
    struct Batch {            // messages that one rank posted together
      size_t unfinished = 0;  // not delivered yet
      bool held = false;      // the rank waits for them
    };
    struct Message {
      Call call;
      int from, to;  // positions in the group
      int owner;     // position of the rank that posted it
      std::shared_ptr<Batch> batch;
    };
    std::vector<const Call*> arrived;  // by position: the collective it waits in, or null
    size_t present = 0;
    bool executing = false;
    std::list<Message> messages;  // posted and not matched, oldest first
  };

  // Carries out a collective on which all members agree; calls[r] is what member r issued.
  using Execute = void (*)(std::span<const Call* const> calls);

  // Whether somebody has put this rank to sleep; asked when another has waited too long.
  using Stopped = std::function<bool(Rank)>;

  // With `execute` null nothing is moved: the ranks are only let go together. A batch of messages
  // is then let go with the first of them that has found its partner: somebody is about to move
  // that one and may not come to the partner of the next before it has arrived.
  Rendezvous(int world_size, std::chrono::milliseconds timeout, Execute execute,
             Stopped stopped = {});

  // Every call names the global rank that makes it. Those of a rank throw CommError when the world
  // is dead.
  Group& create_group(Rank rank, const std::string& name, const std::vector<Rank>& ranks);
  Group& group(size_t index);
  void collective(Rank rank, Group& group, int position, const Call& call);
  void messages(Rank rank, Group& group, int position, std::span<const Call> calls);
  void check_alive();
  void annotate(Rank rank, const Annotation& annotation);

  // The first failure wins; every waiting rank wakes and throws it.
  void fail(const CommError& error, Rank found_by);
  void finish(Rank rank);  // this rank will issue nothing more

  // Of a rank that died: "in all_reduce of 4 float32 on "tp0" [event 3]", or, where it has said
  // what comes next, "before event 4, after all_reduce of ...".
  std::string whereabouts(Rank rank) const;
  // Who sleeps, if anybody: then no other rank is to blame for what takes too long.
  struct Blame {
    Rank culprit;
    std::string text;  // "; rank 1 was stopped by a signal, last seen in ..."
  };
  Blame sleepers() const;
  Rank found_by() const;  // who met the first failure
  std::optional<CommError> dead() const;

 private:
  using Lock = std::unique_lock<std::mutex>;

  struct Place {
    std::condition_variable wake;
    bool blocked = false;
    bool finished = false;
    size_t groups_created = 0;
    Annotation annotation;  // what it said last; of the next call, if it differs from `label`
    std::string last;       // the last call issued, in words
    std::string label;      // of the last call
  };

  void throw_if_dead();
  void fail_locked(const CommError& error, Rank found_by);
  void note(Rank rank, const Group& group, const Call& call);
  void wait(Lock& lock, Rank rank, Group& group, int position);
  void release(Rank rank);
  void withdraw(Group& group, int position);
  void fail_if_nobody_can_go_on(Rank found_by);
  void check_collective(const Group& group, int position, const Call& call);
  void run(Lock& lock, Rank rank, Group& group);
  void post(Group& group, Group::Message message);
  bool deliver(Group& group, const Group::Message& message);
  void delivered_one_of(Group& group, const Group::Message& message);
  CommError mismatch(const Group& group, int a, const Call& call_a, int b,
                     const Call& call_b) const;
  CommError timeout(Rank rank, const Group& group) const;
  Blame sleepers_locked() const;
  std::string doing_locked(Rank rank) const;
  std::string whereabouts_locked(Rank rank) const;

  const std::chrono::milliseconds timeout_;
  const Execute execute_;
  const Stopped stopped_;
  mutable std::mutex mutex_;
  std::deque<Place> places_;  // by global rank
  std::vector<std::unique_ptr<Group>> groups_;
  int blocked_ = 0;
  int finished_ = 0;
  std::optional<CommError> dead_;
  Rank found_by_;
};

}  // namespace s2t
