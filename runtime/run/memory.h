// How much memory a run takes, estimated before it takes any.
//
// Counted: what ranks keep until they are judged, twice while it travels, the gradients and
// converted values of one microbatch, the leaf that every rank cuts its part from, and the unsharded
// model in float64. Not counted: the program itself, and what one op needs beside its operands;
// runs of large models took up to a third more. Not known here: devices; a GPU says itself when its
// memory ends.
#pragma once

#include "analyzer/forward/plan.h"

namespace s2t {

struct MemoryNeed {
  uint64_t ranks = 0;      // bytes of all of them while they run
  uint64_t reference = 0;  // of the unsharded model
  uint64_t results = 0;    // what ranks brought back, while the reference is computed
  uint64_t peak() const;   // of all on one machine, 2^64 - 1 if it is more
};

// `processes`: every rank reads and tries the model by itself.
MemoryNeed memory_needed(const Graph& graph, const Forward& forward, bool processes);

// Bytes that this process and its children may still take: of the machine, of the control group,
// and by `ulimit -v`.
uint64_t memory_available();

// Throws UserError (slug too-little-memory) if the one is more than the other.
void require_memory(const Graph& graph, const MemoryNeed& need, uint64_t available);

}  // namespace s2t
