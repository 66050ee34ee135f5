#include "analyzer/comm/collective.h"

#include <algorithm>
#include <array>

namespace s2t {
namespace {

constexpr std::array<CollectiveDef, kCollectives> kTable{{
    {Collective::all_reduce, "all_reduce", "AR", "AllReduce", Collective::all_reduce},
    {Collective::all_gather, "all_gather", "AG", "AllGather", Collective::reduce_scatter},
    {Collective::reduce_scatter, "reduce_scatter", "RS", "ReduceScatter", Collective::all_gather},
    {Collective::all_to_all, "all_to_all", "A2A", "SendRecv", Collective::all_to_all},
    {Collective::send, "send", "send", "SendRecv", Collective::recv},
    {Collective::recv, "recv", "recv", "SendRecv", Collective::send},
    {Collective::broadcast, "broadcast", "BC", "Broadcast", Collective::reduce},
    {Collective::reduce, "reduce", "RD", "Reduce", Collective::broadcast},
}};

constexpr std::array<std::string_view, 6> kKernels{"AllReduce", "AllGather", "ReduceScatter",
                                                   "SendRecv",  "Broadcast", "Reduce"};

// times / n, rounded up, for products that may pass 64 bits before the division.
Count scaled(Count bytes, int64_t times, int64_t n) {
  const auto wide = static_cast<unsigned __int128>(bytes) * static_cast<uint64_t>(times);
  const auto divisor = static_cast<unsigned __int128>(n);
  const auto rounded = (wide + divisor - 1) / divisor;
  if (rounded > UINT64_MAX) throw Overflow{};
  return static_cast<Count>(rounded);
}

}  // namespace

std::span<const CollectiveDef> collectives() {
  return kTable;
}
const CollectiveDef& info(Collective op) {
  return kTable[static_cast<size_t>(op)];
}

std::span<const std::string_view> kernel_names() {
  return kKernels;
}

size_t kernel_index(Collective op) {
  return static_cast<size_t>(std::find(kKernels.begin(), kKernels.end(), info(op).kernel) -
                             kKernels.begin());
}

Volume volume(Collective op, Count elements, uint32_t element_bytes, int64_t n) {
  const Count bytes = checked_mul(elements, element_bytes);
  const Count all = checked_mul(bytes, static_cast<Count>(n));
  switch (op) {
    case Collective::all_reduce:
      return {elements, bytes, bytes, scaled(bytes, 2 * (n - 1), n)};
    case Collective::all_gather:
      return {elements, bytes, all, all - bytes};
    case Collective::reduce_scatter:
      return {elements, all, bytes, all - bytes};
    case Collective::all_to_all:
      return {elements, bytes, bytes, scaled(bytes, n - 1, n)};
    case Collective::send:
      return {elements, bytes, 0, bytes};
    case Collective::recv:
      return {elements, 0, bytes, bytes};
    case Collective::broadcast:
    case Collective::reduce:
      return {elements, bytes, bytes, bytes};
  }
  return {};
}

}  // namespace s2t
