// Which parameters fully sharded data parallelism gathers together, and which ops they span: the
// units of the model's "gradient_sync", and per stage a root unit for every parameter that none of
// them names. Source: torch.distributed.fsdp fully_shard, one group per wrapped module.
// Not known here: groups, bytes, and when a gather is issued.
#pragma once

#include <vector>

#include "analyzer/backward/derive.h"

namespace s2t {

struct ShardingUnit {
  std::vector<TensorId> members;
  OpId first, last;  // ops that use it, in forward order; of a root: the whole stage
  int stage = 0;
  bool root = false;
  size_t number = 0;  // in the model's list; of a root: behind all of them
};

// By stage, the root first, then in the order of first use, a unit before those nested in it.
std::vector<ShardingUnit> sharding_units(const Graph& graph);

// The ops of a unit that the backward visits first and last; invalid if it visits none.
OpId first_backward_op(const ShardingUnit& unit, const Backward& backward);
OpId last_backward_op(const ShardingUnit& unit, const Backward& backward);

// Whether a value that enters the unit requires grad: only then does a hook tell that its backward
// has ended. Source: FSDPParamGroup._register_post_backward_hook.
bool has_end_hook(const Graph& graph, const ShardingUnit& unit, const Needs& needs);

}  // namespace s2t
