#include "runtime/comm/communicator.h"

#include <fmt/format.h>

#include <array>
#include <numeric>
#include <set>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/text.h"

namespace s2t {
namespace {

constexpr std::array<std::string_view, 5> kReasons{"time-out", "died", "mismatch", "cancelled",
                                                   "transport"};

Call make(CommOp op, const void* in, void* out, Count count, DType dtype) {
  Call call;
  call.op = op;
  call.in = in;
  call.out = out;
  call.count = count;
  call.dtype = dtype;
  return call;
}

void require(bool holds, const Call& call, std::string_view promise) {
  if (!holds) throw Fault(fmt::format("{}: {}", to_string(call), promise));
}

bool needs_peer(CommOp op) {
  return is_point_to_point(op) || op == CommOp::broadcast || op == CommOp::reduce;
}

bool reduces(CommOp op) {
  return op == CommOp::all_reduce || op == CommOp::reduce_scatter || op == CommOp::reduce;
}

}  // namespace

std::string_view name_of(CommReason reason) {
  return kReasons[static_cast<size_t>(reason)];
}

void check(const Call& call, int rank, int size, bool in_batch) {
  const auto members = static_cast<size_t>(size);
  const bool split = call.op == CommOp::all_to_all;
  require(!in_batch || is_point_to_point(call.op), call, "no collective may stand in a batch");
  require(!needs_peer(call.op) || (call.peer >= 0 && call.peer < size), call,
          "the peer is not in the group");
  require(!split || (call.sends.size() == members && call.recvs.size() == members), call,
          "one split per member is needed");
  require(call.in != nullptr || input_bytes(call, size) == 0 ||
              (call.op == CommOp::broadcast && rank != call.peer),
          call, "the input is null");
  require(call.out != nullptr || output_bytes(call, size) == 0 ||
              (call.op == CommOp::reduce && rank != call.peer),
          call, "the output is null");
  require(!reduces(call.op) || call.dtype != DType::f8, call, "f8 cannot be reduced");
  require(!reduces(call.op) || call.reduce != ReduceOp::avg || is_differentiable(call.dtype), call,
          "integers have no average");
}

void check_group(const std::string& name, const std::vector<Rank>& ranks, int world_size) {
  const std::set<Rank> distinct(ranks.begin(), ranks.end());
  if (name.empty() || ranks.empty() || distinct.size() != ranks.size() ||
      distinct.begin()->value < 0 || distinct.rbegin()->value >= world_size)
    throw Fault(fmt::format("group {} is no list of distinct ranks of a world of {}", quoted(name),
                            world_size));
}

void Communicator::all_reduce(const void* in, void* out, Count count, DType dtype, ReduceOp op) {
  Call call = make(CommOp::all_reduce, in, out, count, dtype);
  call.reduce = op;
  issue(call);
}

void Communicator::all_gather(const void* in, void* out, Count send_count, DType dtype) {
  issue(make(CommOp::all_gather, in, out, send_count, dtype));
}

void Communicator::reduce_scatter(const void* in, void* out, Count recv_count, DType dtype,
                                  ReduceOp op) {
  Call call = make(CommOp::reduce_scatter, in, out, recv_count, dtype);
  call.reduce = op;
  issue(call);
}

void Communicator::all_to_all(const void* in, std::span<const Count> sends, void* out,
                              std::span<const Count> recvs, DType dtype) {
  const Count total = std::accumulate(sends.begin(), sends.end(), Count{0});
  Call call = make(CommOp::all_to_all, in, out, total, dtype);
  call.sends.assign(sends.begin(), sends.end());
  call.recvs.assign(recvs.begin(), recvs.end());
  issue(call);
}

void Communicator::broadcast(const void* in, void* out, Count count, DType dtype, int root) {
  Call call = make(CommOp::broadcast, in, out, count, dtype);
  call.peer = root;
  issue(call);
}

void Communicator::reduce(const void* in, void* out, Count count, DType dtype, ReduceOp op,
                          int root) {
  Call call = make(CommOp::reduce, in, out, count, dtype);
  call.reduce = op;
  call.peer = root;
  issue(call);
}

void Communicator::send(const void* in, Count count, DType dtype, int to) {
  Call call = make(CommOp::send, in, nullptr, count, dtype);
  call.peer = to;
  issue(call);
}

void Communicator::recv(void* out, Count count, DType dtype, int from) {
  Call call = make(CommOp::recv, nullptr, out, count, dtype);
  call.peer = from;
  issue(call);
}

void Communicator::barrier() {
  issue(make(CommOp::barrier, nullptr, nullptr, 0, DType::f32));
}

std::vector<Rank> ranks_of_world(const World& world) {
  std::vector<Rank> ranks;
  for (int r = 0; r < world.size(); ++r) ranks.emplace_back(r);
  return ranks;
}

}  // namespace s2t
