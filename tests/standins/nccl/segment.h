// The shared memory of one communicator, and how its ranks wait for each other.
//
// A segment is an anonymous memory file of the process that made it; the others open it through
// /proc/<pid>/fd, so nothing can be left behind in a file system, not even by a killed rank. Each
// rank holds a lock on one byte of the file; the kernel drops it when the process ends, which is
// how a death is noticed. Ranks may be processes or threads.
#pragma once

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace s2t::standin {

constexpr int kMaxRanks = 64;
constexpr size_t kSlotBytes = size_t{64} << 10;  // per rank: what it shows to all others
constexpr size_t kMailBytes = size_t{16} << 10;  // per pair of ranks: one chunk of a message

// Thrown inside, turned into a result code or an asynchronous error at the edge.
struct Failure {
  ncclResult_t code;
  std::string text;
};

// What a rank says about the collective it enters; all ranks must say the same.
struct Description {
  uint32_t op, dtype, redop;
  int32_t root;
  uint64_t count;
  uint64_t number;           // how many collectives this rank has issued on the communicator
  uint32_t position, among;  // place in its group, size of the group
  bool operator==(const Description&) const = default;
};

enum class Activity : uint32_t { idle, collective, p2p, left };

struct Barrier {
  std::atomic<uint32_t> arrived, generation;
};

struct RankState {
  std::atomic<uint32_t> claimed;
  std::atomic<uint64_t> entered;  // how many collectives it has entered
  std::atomic<Activity> activity;
  std::atomic<uint32_t> doorbell;  // bumped by whoever changed one of this rank's mailboxes
  Description description;
  // Exchanged when a communicator is made:
  uint64_t host;
  char bus_id[32];
  char name[64];
  int32_t ranks, color, key;
  int32_t new_pid, new_fd;  // where the segment of the new communicator is
  uint64_t new_cookie;
};

struct Mailbox {
  std::atomic<uint32_t> full;
  uint32_t dtype;
  uint64_t count;
  uint64_t offset, bytes;  // of this chunk
  char data[kMailBytes];
};

struct Header {
  uint64_t cookie;       // tells this segment from a later one with the same pid and descriptor
  Barrier host, device;  // for calls that block; for kernels
  std::atomic<uint32_t> error;  // 0 none, 1 being written, 2 readable
  ncclResult_t error_code;
  char error_text[480];
  RankState rank[kMaxRanks];
};

// Where to find a segment; fits into an ncclUniqueId.
struct Address {
  int32_t pid, fd;
  uint64_t cookie;
};

class Segment {
 public:
  static Address create();  // the descriptor stays open until close_created
  static void close_created(const Address& address);  // once every rank has joined

  Segment(const Address& address, int ranks, int rank);  // throws Failure
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  Header& header() { return *header_; }
  RankState& state(int rank) { return header_->rank[rank]; }
  RankState& mine() { return state(rank_); }
  char* slot(int rank) { return slots_ + static_cast<size_t>(rank) * kSlotBytes; }
  Mailbox& mailbox(int from, int to) { return mailboxes_[from * kMaxRanks + to]; }
  bool gone(int rank);  // its process died, or it left the communicator

  // Stops all ranks; the first failure stays. A wrong use is everybody's, any other failure of this
  // rank is a remote error to the others.
  void publish_error(const Failure& failure);
  void abort() { aborted_.store(true); }
  bool aborted() const { return aborted_.load(); }

  // Blocks until `ready`; `word` is bumped (and woken) by whoever makes it so. Throws Failure when
  // the communicator was aborted or failed elsewhere, when a rank in `needed` is gone, or after
  // S2T_STANDIN_TIMEOUT_MS (60 s). Real NCCL would wait for ever in the last case.
  void await(std::atomic<uint32_t>& word, const std::function<bool()>& ready,
             const std::function<bool(int)>& needed, const std::string& what);
  void barrier(Barrier& barrier, const std::string& what);

 private:
  void check(const std::function<bool()>& ready, const std::function<bool(int)>& needed,
             const std::string& what, std::chrono::steady_clock::time_point started);
  std::string activities(const std::function<bool(int)>& needed);

  int ranks_, rank_, fd_;
  Header* header_;
  char* slots_;
  Mailbox* mailboxes_;
  std::atomic<bool> aborted_{false};
};

void wake(std::atomic<uint32_t>& word);  // bumps it and wakes all who wait on it

}  // namespace s2t::standin
