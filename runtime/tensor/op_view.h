// What one rank works on of an op: for every factor of its rule a window of the factor's range.
//
// The windows say both how large the local operands are and where they lie in the unsharded op,
// which a few kernels must know: a causal mask needs the position of its queries, a row of a split
// table its number, dropout the place of an element. Example: `ids[*0] table[v d] -> y[*0 d]` with
// v split over 4 ranks: rank 1 of a table of 100 rows has v = {local 25, offset 25, global 100}.
// Not known here: tensors, values, where the parts of the other ranks are.
#pragma once

#include <span>
#include <vector>

#include "analyzer/mesh/mesh.h"
#include "analyzer/rule/mode.h"

namespace s2t {

struct OpView {
  BoundRule rule;               // with the local size of every factor
  std::vector<int64_t> offset;  // per factor: where the local range begins
  std::vector<int64_t> global;  // per factor: its unsharded size
};

// The unsharded op.
OpView whole_view(const BoundRule& rule);

// The view of `rank` when the op runs in `modes` (one per atom of the mesh). Atoms that split one
// factor cut it in mesh order, the slowest atom first. A size that does not divide is cut into
// blocks of the rounded-up size; the last rank's block is then smaller.
OpView local_view(const BoundRule& rule, std::span<const Mode> modes, const Mesh& mesh, Rank rank);

Shape operand_shape(const BoundRule& rule, size_t operand);

}  // namespace s2t
