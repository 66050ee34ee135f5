// One communication call as data: what a rank asks of its group.
//
// Known here: the operations' names, the units of their counts, and when two ranks' calls belong
// together. Not known here: who carries a call out, or how. A new collective is a row in the name
// table, a default in by_messages.cc, and nothing else that must change.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/base/dtype.h"
#include "analyzer/base/units.h"
#include "runtime/device/device.h"

namespace s2t {

enum class CommOp : uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  reduce,
  send,
  recv,
  barrier
};
std::string_view name_of(CommOp op);  // "all_reduce"
inline bool is_point_to_point(CommOp op) {
  return op == CommOp::send || op == CommOp::recv;
}

// `count` is the NCCL argument in elements: all_reduce, broadcast, reduce, send, recv the whole;
// all_gather what one rank sends; reduce_scatter what one rank receives; all_to_all the sum of its
// sends; barrier 0. `peer` is a rank of the group: the root, or the other side of a send or recv.
struct Call {
  CommOp op = CommOp::barrier;
  Count count = 0;
  DType dtype = DType::f32;
  ReduceOp reduce = ReduceOp::sum;
  int peer = -1;
  std::vector<Count> sends, recvs;  // all_to_all only: elements per rank of the group
  const void* in = nullptr;
  void* out = nullptr;
};

// "all_reduce (sum) of 128 float32", "send of 4 float32 to 2", "barrier"
std::string to_string(const Call& call);

// May `a`, issued by rank `rank_a` of a group, and `b` by `rank_b`, be the same collective?
bool agree(const Call& a, int rank_a, const Call& b, int rank_b);

// Bytes that a rank of a group of `size` hands to the call, and bytes that it gets back.
Count input_bytes(const Call& call, int size);
Count output_bytes(const Call& call, int size);

}  // namespace s2t
