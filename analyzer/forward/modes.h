// Chooses the mode of one op from the layouts its operands have. Only plan.cc reads this.
#pragma once

#include <vector>

#include "analyzer/forward/plan.h"

namespace s2t {

// Fills modes, votes and ports of `op` given the layouts of its operands as produced. A vote for a
// mode that would leave a tensor in stripes is dropped; a pin of one is reported.
void choose_modes(const Graph& graph, const Op& op, const std::vector<Layout>& operand_layouts,
                  OpPlan& plan, Diagnostics& diagnostics);

}  // namespace s2t
