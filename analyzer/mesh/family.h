// Which process group family a set of atoms means: that of the dense axes, or that of the experts'.
//
// Groups of dense and of expert axes are different groups even where they hold the same ranks, as
// with edp and dp where etp x ep = tp x cp. Not known here: who communicates over them.
#pragma once

#include "analyzer/mesh/mesh.h"

namespace s2t {

// Named after the axis with exactly these atoms, else after the axes that tile it, the slowest
// first: dp-tp, ep-etp. `expert`: axes of the experts are meant and come first; otherwise the
// dense ones do.
Family family_of(const Mesh& mesh, AtomSet set, bool expert);

// Where a framework that creates its groups in `order` has those of `family`: entries are axes, or
// several ("dp cp"), of which those count that the mesh has. Behind all entries if it
// is none of them.
size_t place_in(const std::vector<std::string>& order, const Mesh& mesh, const Family& family);

}  // namespace s2t
