// When buckets of updated parameters are gathered by the forward that needs them: Megatron core,
// distributed_data_parallel.py, _make_forward_pre_hook; param_and_grad_buffer.py, finish_param_sync.
//
// Not known here: bytes, groups, and that only the first microbatch does so.
#pragma once

#include <vector>

#include "analyzer/backward/buckets.h"

namespace s2t {

// `bucket` is sent for right before `op`.
struct FirstUse {
  size_t bucket = 0;
  OpId op;
};

// In issue order. Buckets were filled from the last parameter to the first, and are used the other
// way round: where one is used first, the next one of its kind is sent for; or all of a model chunk
// where it begins.
std::vector<FirstUse> first_uses(const Graph& graph, const std::vector<Bucket>& buckets);

}  // namespace s2t
