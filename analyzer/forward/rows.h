// What may happen to routed rows.
//
// A rank holds as many rows of a ragged value as its routing says, not a share of them. So their
// dim is cut by the axes over which tokens were sharded when they were routed, and by no other, and
// the one exchange is that of rows for experts, over the axis of the routing. A plan that asks for
// more is refused here, whoever asks: a pin, a mode, the layout of a weight, a gradient.
#pragma once

#include "analyzer/forward/plan.h"

namespace s2t {

// Reports layouts of ragged values, and steps of conversions of them, that no rank can take.
void check_rows(const Graph& graph, const Forward& forward, Diagnostics& diagnostics);

// One conversion of `value`, or of its gradient, which the op at `pointer` asks for.
void check_rows(const Graph& graph, const Forward& forward, TensorId value,
                const std::vector<Step>& steps, const std::string& pointer,
                Diagnostics& diagnostics);

}  // namespace s2t
