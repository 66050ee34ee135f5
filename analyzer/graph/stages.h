// Cuts a graph into pipeline stages. Only build.cc reads this.
#pragma once

#include "analyzer/graph/graph.h"

namespace s2t {

// Groups ops by stage and puts a `transfer` op on every border that a value crosses; a value needed
// two stages on is relayed by the stage between, as pipeline runtimes pass it. A received
// activation requires grad, because every framework marks the receive buffer so. No-op with one
// stage.
void insert_transfers(Graph& graph);

}  // namespace s2t
