// When fully sharded units are gathered: each as its own forward or backward begins, unless one that
// began earlier had it gathered in advance.
//
// Known here: the order of torch.distributed.fsdp fully_shard (_fsdp_param_group.py, pre_forward,
// pre_backward, _backward_prefetch; _fsdp_state.py, _states_to_..._prefetch) and of DeepSpeed's
// ZeRO 3 without prefetching. Not known here: groups, bytes.
#pragma once

#include <vector>

#include "analyzer/backward/sharding_units.h"

namespace s2t {

struct UnitGather {
  size_t unit = 0;  // place in the list of units
  bool backward = false;
  OpId before;  // the op of that direction
};

// For units as `sharding_units` orders them. In issue order within one place.
std::vector<UnitGather> unit_gathers(const Graph& graph, const std::vector<ShardingUnit>& units,
                                     const Backward& backward);

}  // namespace s2t
