#include "tests/standins/nccl/segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <mutex>
#include <random>
#include <set>

namespace s2t::standin {
namespace {

using Clock = std::chrono::steady_clock;

// One size for all, however many ranks: pages that nobody touches cost nothing, and ranks that
// disagree about their number cannot cut the file short for each other.
constexpr size_t kBytes =
    sizeof(Header) + kMaxRanks * kSlotBytes + sizeof(Mailbox) * kMaxRanks * kMaxRanks;

bool sleep_on(std::atomic<uint32_t>& word, uint32_t seen) {
  const timespec limit{0, 5'000'000};
  return syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0) == 0 || errno == EAGAIN;
}

Clock::duration timeout() {
  const char* text = std::getenv("S2T_STANDIN_TIMEOUT_MS");
  return std::chrono::milliseconds(text ? std::atoll(text) : 60'000);
}

struct flock byte_lock(int rank) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

// Descriptors of segments made by this process that others may still have to open.
struct Created {
  std::mutex mutex;
  std::set<int> descriptors;
};
Created& created() {
  static auto* instance = new Created;
  return *instance;
}

}  // namespace

void wake_unchanged(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}
void wake(std::atomic<uint32_t>& word) {
  word.fetch_add(1);
  wake_unchanged(word);
}

Address Segment::create() {
  const int fd = memfd_create("s2t-standin-nccl", MFD_CLOEXEC);
  const uint64_t cookie = std::random_device{}() | uint64_t{std::random_device{}()} << 32;
  if (fd < 0 || ftruncate(fd, kBytes) != 0 ||
      pwrite(fd, &cookie, sizeof cookie, offsetof(Header, cookie)) != sizeof cookie) {
    throw Failure{ncclSystemError, "cannot create shared memory"};
  }
  std::lock_guard lock(created().mutex);
  created().descriptors.insert(fd);
  return {getpid(), fd, cookie};
}

void Segment::close_created(const Address& address) {
  std::lock_guard lock(created().mutex);
  if (address.pid == getpid() && created().descriptors.erase(address.fd)) close(address.fd);
}

Segment::Segment(const Address& address, int ranks, int rank) : ranks_(ranks), rank_(rank) {
  const std::string path =
      "/proc/" + std::to_string(address.pid) + "/fd/" + std::to_string(address.fd);
  fd_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ < 0) throw Failure{ncclSystemError, "the process that made the unique id is gone"};
  void* base = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (base == MAP_FAILED) {
    close(fd_);
    throw Failure{ncclSystemError, "cannot map shared memory"};
  }
  header_ = static_cast<Header*>(base);
  slots_ = static_cast<char*>(base) + sizeof(Header);
  mailboxes_ = reinterpret_cast<Mailbox*>(slots_ + kMaxRanks * kSlotBytes);
  struct flock lock = byte_lock(rank);
  const bool right = header_->cookie == address.cookie;
  if (!right || fcntl(fd_, F_OFD_SETLK, &lock) != 0) {
    munmap(base, kBytes);
    close(fd_);
    throw Failure{ncclInvalidUsage,
                  right ? "rank " + std::to_string(rank) + " joined twice" : "a stale unique id"};
  }
  mine().claimed.store(1);
}

Segment::~Segment() {
  mine().activity.store(Activity::left);
  wake_unchanged(header_->device.generation);
  munmap(header_, kBytes);
  close(fd_);
}

bool Segment::gone(int rank) {
  if (rank == rank_ || !state(rank).claimed.load()) return false;
  if (state(rank).activity.load() == Activity::left) return true;
  struct flock lock = byte_lock(rank);
  return fcntl(fd_, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

void Segment::publish_error(const Failure& failure) {
  uint32_t none = 0;
  if (!header_->error.compare_exchange_strong(none, 1)) return;
  header_->error_code = failure.code == ncclInvalidUsage ? ncclInvalidUsage : ncclRemoteError;
  std::strncpy(header_->error_text, failure.text.c_str(), sizeof header_->error_text - 1);
  header_->error.store(2);
  // The generation counts barriers, so those who wait for it are woken without a change.
  wake_unchanged(header_->device.generation);
  wake_unchanged(header_->host.generation);
  for (int r = 0; r < ranks_; ++r) wake(state(r).doorbell);
}

std::string Segment::activities(const std::function<bool(int)>& needed) {
  static constexpr const char* kNames[] = {"outside of any kernel", "in a collective",
                                           "in a send or receive", "gone"};
  std::string text;
  for (int r = 0; r < ranks_; ++r) {
    if (r == rank_ || !needed(r)) continue;
    text += "; rank " + std::to_string(r) + " is " +
            (state(r).claimed.load() ? kNames[static_cast<int>(state(r).activity.load())]
                                     : "not there");
  }
  return text;
}

void Segment::check(const std::function<bool()>& ready, const std::function<bool(int)>& needed,
                    const std::string& what, Clock::time_point started) {
  const std::string me = "rank " + std::to_string(rank_) + ", in " + what + ": ";
  if (aborted_.load()) throw Failure{ncclInternalError, me + "the communicator was aborted"};
  if (header_->error.load() == 2) throw Failure{header_->error_code, header_->error_text};
  for (int r = 0; r < ranks_; ++r) {
    if (!needed(r) || !gone(r)) continue;
    if (ready()) return;  // it did its part before it went
    throw Failure{ncclRemoteError, me + "rank " + std::to_string(r) + " has ended or left"};
  }
  if (Clock::now() - started < timeout()) return;
  throw Failure{ncclSystemError, me + "timed out" + activities(needed)};
}

void Segment::await(std::atomic<uint32_t>& word, const std::function<bool()>& ready,
                    const std::function<bool(int)>& needed, const std::string& what) {
  const auto started = Clock::now();
  bool quick = true;
  for (;;) {
    const uint32_t seen = word.load();
    if (ready()) return;
    if (!quick || aborted_.load() || header_->error.load() == 2) {
      check(ready, needed, what, started);
    }
    quick = sleep_on(word, seen);  // false: nothing moved for a while
  }
}

void Segment::barrier(Barrier& b, const std::string& what) {
  const uint32_t generation = b.generation.load();
  if (b.arrived.fetch_add(1) + 1 == static_cast<uint32_t>(ranks_)) {
    b.arrived.store(0);
    wake(b.generation);
    return;
  }
  await(
      b.generation, [&] { return b.generation.load() != generation; }, [](int) { return true; },
      what);
}

}  // namespace s2t::standin
