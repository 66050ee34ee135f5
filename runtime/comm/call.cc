#include "runtime/comm/call.h"

#include <fmt/format.h>

#include <array>
#include <numeric>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

// How input and output follow from `count`: 1 is count itself, n is count times the group's size.
enum class Extent : uint8_t { none, one, size, recvs };

struct CommOpInfo {
  std::string_view name;
  bool reduces;
  bool rooted;
  Extent input, output;
};

constexpr std::array<CommOpInfo, 9> kOps{{
    {"all_reduce", true, false, Extent::one, Extent::one},
    {"all_gather", false, false, Extent::one, Extent::size},
    {"reduce_scatter", true, false, Extent::size, Extent::one},
    {"all_to_all", false, false, Extent::one, Extent::recvs},
    {"broadcast", false, true, Extent::one, Extent::one},
    {"reduce", true, true, Extent::one, Extent::one},
    {"send", false, false, Extent::one, Extent::none},
    {"recv", false, false, Extent::none, Extent::one},
    {"barrier", false, false, Extent::none, Extent::none},
}};

const CommOpInfo& row(CommOp op) {
  return kOps[static_cast<size_t>(op)];
}

Count bytes(const Call& call, Extent extent, int size) {
  const Count one = checked_mul(call.count, size_of(call.dtype));
  switch (extent) {
    case Extent::none:
      return 0;
    case Extent::one:
      return one;
    case Extent::size:
      return checked_mul(one, static_cast<Count>(size));
    case Extent::recvs:
      break;
  }
  const Count received = std::accumulate(call.recvs.begin(), call.recvs.end(), Count{0});
  return checked_mul(received, size_of(call.dtype));
}

}  // namespace

std::string_view name_of(CommOp op) {
  return row(op).name;
}

std::string to_string(const Call& call) {
  if (call.op == CommOp::barrier) return "barrier";
  std::string text(name_of(call.op));
  if (row(call.op).reduces) text += fmt::format(" ({})", name_of(call.reduce));
  text += fmt::format(" of {} {}", commas(call.count), info(call.dtype).name);
  if (call.op == CommOp::send) text += fmt::format(" to {}", call.peer);
  if (call.op == CommOp::recv) text += fmt::format(" from {}", call.peer);
  if (call.op == CommOp::all_to_all)
    text += fmt::format(" (sends [{}], receives [{}])", fmt::join(call.sends, " "),
                        fmt::join(call.recvs, " "));
  if (row(call.op).rooted) text += fmt::format(" with root {}", call.peer);
  return text;
}

bool agree(const Call& a, int rank_a, const Call& b, int rank_b) {
  if (a.op != b.op || a.dtype != b.dtype) return false;
  if (a.op == CommOp::all_to_all)
    return a.sends[static_cast<size_t>(rank_b)] == b.recvs[static_cast<size_t>(rank_a)] &&
           b.sends[static_cast<size_t>(rank_a)] == a.recvs[static_cast<size_t>(rank_b)];
  return a.count == b.count && (!row(a.op).reduces || a.reduce == b.reduce) &&
         (!row(a.op).rooted || a.peer == b.peer);
}

Count input_bytes(const Call& call, int size) {
  return bytes(call, row(call.op).input, size);
}

Count output_bytes(const Call& call, int size) {
  return bytes(call, row(call.op).output, size);
}

}  // namespace s2t
