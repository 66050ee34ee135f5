// The collectives, as a table: words, kernels, and what a call costs. Bytes here are per rank.
//
//   input   what the rank hands to the call
//   output  what it gets back
//   wire    what a bandwidth-optimal algorithm must move from this rank to others, rounded up
//           (nccl-tests PERFORMANCE.md): all_reduce 2(n-1)/n S; all_gather and reduce_scatter
//           (n-1)/n S with S the full tensor; all_to_all the bytes for other ranks; send,
//           broadcast, reduce S; recv what it receives (totals add sends only)
//
// Not known here: tensors of a model, or why a call is made.
#pragma once

#include <span>
#include <string_view>

#include "analyzer/base/units.h"

namespace s2t {

enum class Collective : uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  send,
  recv,
  broadcast,
  reduce,
};
inline constexpr size_t kCollectives = 8;

struct CollectiveDef {
  Collective op;
  std::string_view name;    // "all_reduce"
  std::string_view brief;   // "AR"
  std::string_view kernel;  // NCCL device kernel family: all-to-all, send and recv are "SendRecv"
  Collective dual;          // its backward, seen as a layout change; dual of dual = self
};

std::span<const CollectiveDef> collectives();
const CollectiveDef& info(Collective op);

// Kernel families in the order in which reports list them.
std::span<const std::string_view> kernel_names();
size_t kernel_index(Collective op);

struct Volume {
  Count elements = 0;  // count argument of the NCCL call, in units of the dtype
  Count input_bytes = 0;
  Count output_bytes = 0;
  Count wire_bytes = 0;

  bool operator==(const Volume&) const = default;
};

// `shard`: elements of this rank's part (all_gather input, reduce_scatter output), else of the
// tensor. all_to_all here is the equal-split one; ragged ones are counted by comm/routing.
Volume volume(Collective op, Count elements, uint32_t element_bytes, int64_t group_size);

}  // namespace s2t
