// How one layout becomes another: per axis
//
//   S->R all-gather   P->R all-reduce   P->S reduce-scatter   S(a)->S(b) all-to-all
//   R->S slice        R->P, S->P free (local)
//
// Steps on atoms of one named axis fuse into one collective; so do steps on the axes of `fuse` (the
// gradient synchronisation reduces over dp x cp in one call). Cheap steps come first: what makes
// the local part smaller before it is reduced, what makes it bigger last. Of axes that cut one dim
// the fastest leaves first and the slowest enters first; if a slower one changes, those inside it
// step aside. Not known here: tensors, causes.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/comm/collective.h"
#include "analyzer/layout/layout.h"
#include "analyzer/mesh/mesh.h"

namespace s2t {

struct Step {
  std::optional<Collective> collective;  // none: local, no communication
  AtomSet atoms = 0;
  Combiner combiner = Combiner::sum;
  int from_dim = -1, to_dim = -1;  // dims that a shard leaves and enters
  Layout before, after;            // of the whole value

  bool operator==(const Step&) const = default;
};

// Whether blocks of a dim must lie in rank order. Rows that carry their own address (routed tokens,
// [experts, rows, columns]) may lie in any, so every axis may come to and go from their first two
// dims by itself; their columns have none.
enum class Blocks : uint8_t { in_order, any_order };

// Steps which, applied in order to `from`, give `to`; each is one collective, or local.
std::vector<Step> plan_redistribution(const Layout& from, const Layout& to, const Mesh& mesh,
                                      AtomSet fuse = 0, Blocks blocks = Blocks::in_order);

// "S(0) -> R is all_gather"
std::string to_string(const Step& step);

// Local element count that `volume` wants for a step on a value whose local shape is `before`
// before and `after` after it (both of this rank).
Count step_elements(Collective op, Count before, Count after);

}  // namespace s2t
