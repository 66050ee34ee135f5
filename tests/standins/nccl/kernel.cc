// What a queued "kernel" does: collectives first, one after the other, then all messages at once.
//
// Before data moves, a collective compares what every rank says about it; a message carries its
// count and type. Real NCCL compares nothing and hangs or corrupts memory.
#include <algorithm>
#include <cstring>
#include <deque>
#include <map>

#include "tests/standins/element.h"
#include "tests/standins/nccl/comm.h"

namespace s2t::standin {
namespace {

// --- reductions ------------------------------------------------------------------------------
template <class C>
C combine(C a, C b, ncclRedOp_t op) {
  switch (op) {
    case ncclProd:
      return static_cast<C>(a * b);
    case ncclMax:
      return b > a || b != b ? b : a;  // a NaN stays
    case ncclMin:
      return b < a || b != b ? b : a;
    default:
      return static_cast<C>(a + b);
  }
}

// out[i] = reduction over ranks, in rank order, of parts[r][i].
template <class T>
void reduce_as(const std::vector<const char*>& parts, char* out, size_t count, ncclRedOp_t op) {
  using C = compute_t<T>;
  for (size_t i = 0; i < count; ++i) {
    const auto at = [&](const char* part) {
      T value;
      std::memcpy(&value, part + i * sizeof(T), sizeof(T));
      return static_cast<C>(widen(value));
    };
    C sum = at(parts[0]);
    for (size_t r = 1; r < parts.size(); ++r) sum = combine(sum, at(parts[r]), op);
    if (op == ncclAvg) sum = static_cast<C>(sum / static_cast<C>(parts.size()));
    T result;
    narrow(sum, &result);
    std::memcpy(out + i * sizeof(T), &result, sizeof(T));
  }
}

void reduce(const std::vector<const char*>& parts, char* out, size_t count, ncclDataType_t dtype,
            ncclRedOp_t op) {
  switch (dtype) {
    case ncclInt8:
      return reduce_as<int8_t>(parts, out, count, op);
    case ncclUint8:
      return reduce_as<uint8_t>(parts, out, count, op);
    case ncclInt32:
      return reduce_as<int32_t>(parts, out, count, op);
    case ncclUint32:
      return reduce_as<uint32_t>(parts, out, count, op);
    case ncclInt64:
      return reduce_as<int64_t>(parts, out, count, op);
    case ncclUint64:
      return reduce_as<uint64_t>(parts, out, count, op);
    case ncclFloat16:
      return reduce_as<Half>(parts, out, count, op);
    case ncclBfloat16:
      return reduce_as<BFloat16>(parts, out, count, op);
    case ncclFloat32:
      return reduce_as<float>(parts, out, count, op);
    case ncclFloat64:
      return reduce_as<double>(parts, out, count, op);
    default:
      throw Failure{ncclInvalidArgument, "no reduction for this type"};
  }
}

// --- collectives -----------------------------------------------------------------------------
// Every collective is: some ranks show some pieces of `count` elements, some ranks read one piece
// of each and either reduce or concatenate them.
struct Pattern {
  Op op;
  bool root_shows;  // only the root shows, else everybody
  bool piece_each;  // one piece per reader, else the same piece for all
  bool root_reads;  // only the root reads, else everybody
  bool reduces;     // else concatenates
};
constexpr Pattern kPatterns[] = {
    {Op::all_reduce, false, false, false, true},    {Op::all_gather, false, false, false, false},
    {Op::reduce_scatter, false, true, false, true}, {Op::broadcast, true, false, false, false},
    {Op::reduce, false, false, true, true},
};

std::string describe(const Description& d) {
  const Task task{static_cast<Op>(d.op),
                  nullptr,
                  nullptr,
                  d.count,
                  static_cast<ncclDataType_t>(d.dtype),
                  static_cast<ncclRedOp_t>(d.redop),
                  d.root,
                  nullptr,
                  nullptr};
  std::string text = to_string(task) + " as its collective " + std::to_string(d.number);
  if (d.among > 1) {
    text +=
        " (" + std::to_string(d.position + 1) + " of " + std::to_string(d.among) + " in one group)";
  }
  return text;
}

// All ranks must be in the same collective; every rank comes to the same verdict.
void agree(ncclComm& comm, const Task& task, size_t position, size_t among) {
  Segment& s = comm.segment;
  s.mine().description = {static_cast<uint32_t>(task.op),
                          task.dtype,
                          task.redop,
                          task.peer,
                          task.count,
                          ++comm.collectives,
                          static_cast<uint32_t>(position),
                          static_cast<uint32_t>(among)};
  s.mine().entered.store(comm.collectives);
  s.mine().activity.store(Activity::collective);
  for (int r = 0; r < s.ranks(); ++r) wake(s.state(r).doorbell);  // see stuck_behind_collective
  s.barrier(s.header().device, name_of(task.op));
  for (int r = 1; r < s.ranks(); ++r) {
    if (s.state(r).description == s.state(0).description) continue;
    throw Failure{ncclInvalidUsage, comm.label() + ": rank " + std::to_string(r) + " calls " +
                                        describe(s.state(r).description) + "; rank 0 calls " +
                                        describe(s.state(0).description)};
  }
}

// Copies `bytes` at `offset` of every piece into this rank's slot, piece after piece.
void show(ncclComm& comm, const Task& task, int pieces, size_t offset, size_t bytes) {
  char* slot = comm.segment.slot(comm.segment.rank());
  for (int p = 0; p < pieces; ++p) {
    std::memcpy(slot + p * bytes, task.send + p * task.bytes() + offset, bytes);
  }
}

void read(ncclComm& comm, const Task& task, const Pattern& pattern, size_t offset, size_t bytes) {
  Segment& s = comm.segment;
  const size_t piece = pattern.piece_each ? static_cast<size_t>(s.rank()) : 0;
  if (pattern.root_shows) {
    std::memcpy(task.recv + offset, s.slot(task.peer), bytes);
    return;
  }
  std::vector<const char*> parts;
  for (int r = 0; r < s.ranks(); ++r) parts.push_back(s.slot(r) + piece * bytes);
  if (pattern.reduces) {
    reduce(parts, task.recv + offset, bytes / size_of(task.dtype), task.dtype, task.redop);
    return;
  }
  for (size_t r = 0; r < parts.size(); ++r) {
    std::memcpy(task.recv + r * task.bytes() + offset, parts[r], bytes);
  }
}

void run_collective(ncclComm& comm, const Task& task, size_t position, size_t among) {
  agree(comm, task, position, among);
  const Pattern& pattern = *std::find_if(std::begin(kPatterns), std::end(kPatterns),
                                         [&](const Pattern& row) { return row.op == task.op; });
  Segment& s = comm.segment;
  const int pieces = pattern.piece_each ? s.ranks() : 1;
  const size_t step = kSlotBytes / pieces / 8 * 8;
  const bool root = task.peer == s.rank();
  for (size_t offset = 0; offset < task.bytes() || offset == 0; offset += step) {
    const size_t bytes = std::min(step, task.bytes() - offset);
    if (root || !pattern.root_shows) show(comm, task, pieces, offset, bytes);
    s.barrier(s.header().device, name_of(task.op));
    if (root || !pattern.root_reads) read(comm, task, pattern, offset, bytes);
    s.barrier(s.header().device, name_of(task.op));  // before anybody shows the next part
  }
}

// --- messages --------------------------------------------------------------------------------
struct Message {
  const Task* task;
  size_t moved = 0;      // bytes put into, or taken from, the mailbox
  bool started = false;  // a message of no bytes still is one chunk
  bool done = false;
};

// A send is done when its last chunk was taken: no program may rely on buffering.
bool advance_send(Segment& s, Message& m) {
  const Task& task = *m.task;
  Mailbox& box = s.mailbox(s.rank(), task.peer);
  if (box.full.load()) return false;
  if (m.started && m.moved == task.bytes()) {
    m.done = true;
    return true;
  }
  const size_t bytes = std::min(kMailBytes, task.bytes() - m.moved);
  box.dtype = task.dtype;
  box.count = task.count;
  box.offset = m.moved;
  box.bytes = bytes;
  if (bytes > 0) std::memcpy(box.data, task.send + m.moved, bytes);
  m.moved += bytes;
  m.started = true;
  box.full.store(1);
  wake(s.state(task.peer).doorbell);
  return true;
}

bool advance_recv(ncclComm& comm, Message& m) {
  Segment& s = comm.segment;
  const Task& task = *m.task;
  Mailbox& box = s.mailbox(task.peer, s.rank());
  if (!box.full.load()) return false;
  if (box.count != task.count || box.dtype != static_cast<uint32_t>(task.dtype)) {
    Task sent = task;
    sent.op = Op::send;
    sent.count = box.count;
    sent.dtype = static_cast<ncclDataType_t>(box.dtype);
    sent.peer = s.rank();
    throw Failure{ncclInvalidUsage, comm.label() + ": rank " + std::to_string(s.rank()) +
                                        " calls " + to_string(task) + "; rank " +
                                        std::to_string(task.peer) + " calls " + to_string(sent)};
  }
  if (box.bytes > 0) std::memcpy(task.recv + box.offset, box.data, box.bytes);
  m.moved += box.bytes;
  box.full.store(0);
  wake(s.state(task.peer).doorbell);
  m.done = m.moved == task.bytes();
  return true;
}

// Messages to (or from) one peer go in order; different peers go side by side.
class Exchange {
 public:
  Exchange(ncclComm& comm, const std::vector<Task>& tasks) : comm_(comm), s_(comm.segment) {
    for (const Task& task : tasks) {
      if (is_p2p(task.op)) queues_[{task.op, task.peer}].push_back({&task});
    }
  }

  void run() {
    if (queues_.empty()) return;
    s_.mine().activity.store(Activity::p2p);
    const auto pending_with = [this](int rank) {
      return queues_.count({Op::send, rank}) + queues_.count({Op::recv, rank}) > 0;
    };
    while (!queues_.empty()) {
      s_.await(
          s_.mine().doorbell, [this] { return advance_any() || stuck_behind_collective(); },
          pending_with, "a send or receive");
    }
  }

 private:
  using Key = std::pair<Op, int>;

  bool advance(std::deque<Message>& queue) {
    Message& m = queue.front();
    const bool moved = m.task->op == Op::send ? advance_send(s_, m) : advance_recv(comm_, m);
    if (m.done) queue.pop_front();
    return moved;
  }

  bool advance_any() {
    bool moved = false;
    for (auto it = queues_.begin(); it != queues_.end();) {
      moved |= advance(it->second);
      it = it->second.empty() ? queues_.erase(it) : std::next(it);
    }
    return moved;
  }

  // A peer inside a collective cannot serve us, and its collective cannot end without us: a
  // certain deadlock, unless it served us just before it went there.
  bool stuck_behind_collective() {
    for (const auto& [key, queue] : queues_) {
      const int peer = key.second;
      const RankState& state = s_.state(peer);
      const bool ahead = state.entered.load() > comm_.collectives;
      if (!ahead || state.activity.load() != Activity::collective) continue;
      if (advance_any()) return true;
      throw Failure{ncclInvalidUsage, comm_.label() + ": rank " + std::to_string(s_.rank()) +
                                          " calls " + to_string(*queue.front().task) + "; rank " +
                                          std::to_string(peer) + " calls " +
                                          describe(s_.state(peer).description)};
    }
    return false;
  }

  ncclComm& comm_;
  Segment& s_;
  std::map<Key, std::deque<Message>> queues_;
};

// A receiver that was handed nothing, or a part, must not pass for one that was handed data.
void spoil(const std::vector<Task>& tasks, int ranks) {
  for (const Task& task : tasks) {
    const size_t pieces = task.op == Op::all_gather ? static_cast<size_t>(ranks) : 1;
    if (task.recv) std::memset(task.recv, 0xFF, pieces * task.bytes());
  }
}

}  // namespace

void run_tasks(ncclComm& comm, const std::vector<Task>& tasks) {
  const size_t among = static_cast<size_t>(
      std::count_if(tasks.begin(), tasks.end(), [](const Task& t) { return !is_p2p(t.op); }));
  try {
    if (comm.error.load() != ncclSuccess) throw Failure{comm.error.load(), "an earlier error"};
    for (size_t i = 0; i < among; ++i) run_collective(comm, tasks[i], i, among);
    Exchange(comm, tasks).run();
  } catch (const Failure& failure) {
    spoil(tasks, comm.segment.ranks());
    if (comm.error.exchange(failure.code) == ncclSuccess) set_last_error(failure.text);
    if (!comm.segment.aborted()) comm.segment.publish_error(failure);
  }
  comm.segment.mine().activity.store(Activity::idle);
}

}  // namespace s2t::standin
