// Chooses the mode of one op from the layouts its operands have. Only plan.cc reads this.
#pragma once

#include <vector>

#include "analyzer/forward/plan.h"

namespace s2t {

// Fills modes, votes and ports of `op` given the layouts of its operands as produced.
void choose_modes(const Graph& graph, const Op& op, const std::vector<Layout>& operand_layouts,
                  OpPlan& plan);

}  // namespace s2t
