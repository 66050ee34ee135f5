// Every collective from send and recv alone. All messages of a step are posted as one batch, so no
// order of the ranks can lock them up; sums run in rank order. Correct and short, not fast.
#include <algorithm>
#include <cstring>

#include "analyzer/base/diagnostics.h"
#include "runtime/comm/communicator.h"

namespace s2t {
namespace {

const std::byte* at(const void* base, Count elements, DType dtype) {
  const Count bytes = elements * size_of(dtype);
  return bytes == 0 ? static_cast<const std::byte*>(base)
                    : static_cast<const std::byte*>(base) + bytes;
}
std::byte* at(void* base, Count elements, DType dtype) {
  return const_cast<std::byte*>(at(static_cast<const void*>(base), elements, dtype));
}

// Pairwise exchange: `in` is cut by `sends`, `out` by `recvs`; a rank's own part is copied, and an
// empty part is no message.
struct Exchange {
  const void* in;
  void* out;
  std::vector<Count> send_offset, sends, recv_offset, recvs;
};

void exchange(Communicator& group, const Exchange& e, DType dtype) {
  const auto me = static_cast<size_t>(group.rank());
  group.device().copy(at(e.out, e.recv_offset[me], dtype), at(e.in, e.send_offset[me], dtype),
                      e.sends[me] * size_of(dtype));
  group.group_begin();
  for (size_t r = 0; r < e.sends.size(); ++r) {
    const int peer = static_cast<int>(r);
    if (r != me && e.sends[r] != 0)
      group.send(at(e.in, e.send_offset[r], dtype), e.sends[r], dtype, peer);
    if (r != me && e.recvs[r] != 0)
      group.recv(at(e.out, e.recv_offset[r], dtype), e.recvs[r], dtype, peer);
  }
  group.group_end();
}

std::vector<Count> offsets(const std::vector<Count>& counts) {
  std::vector<Count> result(counts.size(), 0);
  for (size_t i = 1; i < counts.size(); ++i) result[i] = result[i - 1] + counts[i - 1];
  return result;
}

std::vector<Count> same(const Communicator& group, Count count) {
  return std::vector<Count>(static_cast<size_t>(group.size()), count);
}

// out = op over the n parts of `parts`, each `call.count` long, in rank order.
void fold(Communicator& group, const Call& call, const void* parts, void* out) {
  Device& device = group.device();
  device.copy(out, parts, call.count * size_of(call.dtype));
  for (int r = 1; r < group.size(); ++r)
    device.combine(out, at(parts, call.count * static_cast<Count>(r), call.dtype), call.count,
                   call.dtype, call.reduce);
  if (call.reduce == ReduceOp::avg) device.divide(out, call.count, call.dtype, group.size());
}

DeviceBuffer room_for_all(Communicator& group, const Call& call) {
  return {group.device(), call.count * static_cast<Count>(group.size()) * size_of(call.dtype)};
}

void all_to_all(Communicator& group, const Call& c) {
  exchange(group, {c.in, c.out, offsets(c.sends), c.sends, offsets(c.recvs), c.recvs}, c.dtype);
}

void all_gather(Communicator& group, const Call& c) {
  const auto each = same(group, c.count);
  exchange(group, {c.in, c.out, same(group, 0), each, offsets(each), each}, c.dtype);
}

void all_reduce(Communicator& group, const Call& c) {
  const DeviceBuffer parts = room_for_all(group, c);
  const auto each = same(group, c.count);
  exchange(group, {c.in, parts.data(), same(group, 0), each, offsets(each), each}, c.dtype);
  fold(group, c, parts.data(), c.out);
}

void reduce_scatter(Communicator& group, const Call& c) {
  const DeviceBuffer parts = room_for_all(group, c);
  const auto each = same(group, c.count);
  exchange(group, {c.in, parts.data(), offsets(each), each, offsets(each), each}, c.dtype);
  fold(group, c, parts.data(), c.out);
}

void broadcast(Communicator& group, const Call& c) {
  const bool root = group.rank() == c.peer;
  group.group_begin();
  for (int r = 0; r < group.size(); ++r)
    if (root && r != c.peer) group.send(c.in, c.count, c.dtype, r);
  if (!root) group.recv(c.out, c.count, c.dtype, c.peer);
  group.group_end();
  if (root) group.device().copy(c.out, c.in, c.count * size_of(c.dtype));
}

void reduce(Communicator& group, const Call& c) {
  const bool root = group.rank() == c.peer;
  const DeviceBuffer parts = root ? room_for_all(group, c) : DeviceBuffer{};
  auto sends = same(group, 0), recvs = same(group, root ? c.count : 0);
  sends[static_cast<size_t>(c.peer)] = c.count;
  const auto me = static_cast<size_t>(group.rank());
  if (!root) recvs[me] = sends[me] = 0;
  exchange(group, {c.in, parts.data(), same(group, 0), sends, offsets(recvs), recvs}, c.dtype);
  if (root) fold(group, c, parts.data(), c.out);
}

void barrier(Communicator& group, const Call&) {
  const DeviceBuffer token(group.device(), static_cast<size_t>(group.size()) + 1);
  const auto each = same(group, 1);
  auto* in = static_cast<std::byte*>(token.data()) + group.size();
  exchange(group, {in, token.data(), same(group, 0), each, offsets(each), each}, DType::boolean);
}

struct Default {
  CommOp op;
  void (*run)(Communicator&, const Call&);
};

constexpr Default kDefaults[] = {
    {CommOp::all_reduce, all_reduce},
    {CommOp::all_gather, all_gather},
    {CommOp::reduce_scatter, reduce_scatter},
    {CommOp::all_to_all, all_to_all},
    {CommOp::broadcast, broadcast},
    {CommOp::reduce, reduce},
    {CommOp::barrier, barrier},
};

}  // namespace

void by_messages(Communicator& group, const Call& call) {
  for (const Default& d : kDefaults)
    if (d.op == call.op) {
      d.run(group, call);
      return group.device().synchronize();
    }
  throw Fault("a backend must carry out " + std::string(name_of(call.op)) + " itself");
}

}  // namespace s2t
