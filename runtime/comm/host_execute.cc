#include "runtime/comm/host_execute.h"

#include <cstring>
#include <vector>

#include "analyzer/base/diagnostics.h"

namespace s2t {
namespace {

using Calls = std::span<const Call* const>;

size_t bytes_of(const Call& call, Count elements) {
  return checked_mul(elements, size_of(call.dtype));
}

void move(void* to, size_t to_offset, const void* from, size_t from_offset, size_t bytes) {
  if (bytes == 0) return;
  std::memmove(static_cast<std::byte*>(to) + to_offset,
               static_cast<const std::byte*>(from) + from_offset, bytes);
}

// Elements first .. first + count of all inputs, folded in rank order.
std::vector<std::byte> folded(Calls calls, Count first, Count count) {
  const Call& any = *calls[0];
  std::vector<std::byte> sum(bytes_of(any, count));
  if (sum.empty()) return sum;
  const size_t offset = bytes_of(any, first);
  move(sum.data(), 0, any.in, offset, sum.size());
  for (const Call* c : calls.subspan(1))
    combine_on_host(sum.data(), static_cast<const std::byte*>(c->in) + offset, count, any.dtype,
                    any.reduce);
  if (any.reduce == ReduceOp::avg)
    divide_on_host(sum.data(), count, any.dtype, static_cast<int>(calls.size()));
  return sum;
}

void all_reduce(Calls calls) {
  const auto sum = folded(calls, 0, calls[0]->count);
  for (const Call* c : calls) move(c->out, 0, sum.data(), 0, sum.size());
}

void reduce(Calls calls) {
  const auto sum = folded(calls, 0, calls[0]->count);
  move(calls[static_cast<size_t>(calls[0]->peer)]->out, 0, sum.data(), 0, sum.size());
}

void reduce_scatter(Calls calls) {
  const Count count = calls[0]->count;
  const auto sum = folded(calls, 0, checked_mul(count, calls.size()));
  const size_t bytes = bytes_of(*calls[0], count);
  for (size_t r = 0; r < calls.size(); ++r) move(calls[r]->out, 0, sum.data(), r * bytes, bytes);
}

void all_gather(Calls calls) {
  const size_t bytes = bytes_of(*calls[0], calls[0]->count);
  for (const Call* to : calls)
    for (size_t from = 0; from < calls.size(); ++from)
      move(to->out, from * bytes, calls[from]->in, 0, bytes);
}

void broadcast(Calls calls) {
  const Call& root = *calls[static_cast<size_t>(calls[0]->peer)];
  for (const Call* to : calls) move(to->out, 0, root.in, 0, bytes_of(root, root.count));
}

void all_to_all(Calls calls) {
  std::vector<size_t> read(calls.size(), 0);  // bytes of each input already delivered
  for (size_t to = 0; to < calls.size(); ++to) {
    size_t written = 0;
    for (size_t from = 0; from < calls.size(); ++from) {
      const size_t bytes = bytes_of(*calls[from], calls[from]->sends[to]);
      move(calls[to]->out, written, calls[from]->in, read[from], bytes);
      read[from] += bytes;
      written += bytes;
    }
  }
}

struct Row {
  CommOp op;
  void (*run)(Calls);
};

constexpr Row kRows[] = {
    {CommOp::all_reduce, all_reduce}, {CommOp::all_gather, all_gather},
    {CommOp::reduce, reduce},         {CommOp::reduce_scatter, reduce_scatter},
    {CommOp::broadcast, broadcast},   {CommOp::all_to_all, all_to_all},
    {CommOp::barrier, [](Calls) {}},
};

}  // namespace

void execute_on_host(Calls calls) {
  for (const Row& row : kRows)
    if (row.op == calls[0]->op) return row.run(calls);
  throw Fault("no host collective " + std::string(name_of(calls[0]->op)));
}

}  // namespace s2t
