// How parameter gradients (and sharded parameters) become whole again: a layer of its own over the
// axes that share a parameter, after or inside the backward.
//
//   per_parameter  one all_reduce per parameter, in parameter order, after the backward (both notes)
//   bucketed       PyTorch DDP: flat buckets in gradient-ready order, closed when they reach their
//                  limit
//   zero1, zero2   reduce_scatter (or all_reduce) of the gradients, all_gather of the updated
//                  parameters
//   zero3          parameters gathered module by module, forward and backward; buckets of gradients
//                  reduce_scattered
//   fsdp           parameters gathered before use, forward and backward; reduce_scatter of gradients
//                  unit by unit
//
// A bucket never crosses a family, a dtype or a stage. An expert's gradient is summed over the
// ranks that hold the same expert (expert data parallel) and divided by the full data-parallel
// size. Sources: torch/csrc/distributed/c10d/reducer.cpp, torch.distributed.fsdp (fully_shard),
// Megatron core distributed/finalize_model_grads.py. Not known here: event numbering, microbatch
// order.
#pragma once

#include <string>
#include <vector>

#include "analyzer/backward/gradient_leaves.h"

namespace s2t {

struct SyncCall {
  enum class Purpose : uint8_t { data, model, tied, gather, update };
  enum class Where : uint8_t { before_forward_op, before_backward_op, after_backward_op, after };
  enum class When : uint8_t { every, first, last };

  Purpose purpose = Purpose::data;
  Where where = Where::after;
  OpId op;  // anchor, unless `after`
  When when = When::last;
  Collective collective = Collective::all_reduce;
  AtomSet atoms = 0;
  std::vector<int64_t> pipeline_members;  // tied: stages' pipeline coordinates
  bool expert = false;                    // names of the expert factorisation are meant
  std::vector<TensorId> members;
  DType dtype = DType::f32;
  Count elements = 0;  // as comm/collective `volume` wants them
  Shape shape;         // local input shape
  int stage = 0;
  Layout from, to;      // of the first member's gradient (or storage)
  int64_t divisor = 1;  // gradients are divided by it (mean); 1 for a sum
};

struct Sync {
  std::vector<SyncCall> calls;  // in issue order within one place
  std::vector<Remark> remarks;
};

Sync plan_gradient_sync(const Graph& graph, const Backward& backward);

}  // namespace s2t
