// Puts the passes together into the one result: segments per stage, messages of the borders, the
// order of every pipeline rank, what comes after, and what was pruned.
#pragma once

#include "analyzer/backward/gradient_sync.h"
#include "analyzer/program/program.h"
#include "analyzer/schedule/simulate.h"

namespace s2t {

// What the backward would be if every leaf required grad: the difference is what autograd prunes.
struct Unpruned {
  Needs needs;
  Backward backward;
};

Program assemble(const Graph& graph, const Forward& forward, const Needs& needs,
                 const Backward& backward, const Sync& sync, const Unpruned& unpruned,
                 const Costs& costs = {});

}  // namespace s2t
