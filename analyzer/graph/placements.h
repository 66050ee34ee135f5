// Reads placements that a model states per axis name ("S(1)" on "tp") into one placement per atom.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/base/diagnostics.h"
#include "analyzer/graph/model.h"
#include "analyzer/layout/layout.h"
#include "analyzer/mesh/mesh.h"

namespace s2t {

// "R", "S(1)", "P", "P(sum)", "P(max)"; nullopt otherwise.
std::optional<Placement> parse_placement(const std::string& text);

// Placement per atom; none where the declaration says nothing. Wrong entries are reported.
std::vector<std::optional<Placement>> read_layout(const LayoutDecl& decl, const Mesh& mesh,
                                                  size_t dims, Diagnostics& diagnostics);

// Reports every axis that does not divide the dim it shards (unless `uneven`, where one axis may
// leave a rest). To blame is the axis in `stated`, where a layout is stated, else `pointer`.
void check_divides(const Shape& shape, const Layout& layout, bool uneven, const Mesh& mesh,
                   const std::string& pointer, const LayoutDecl* stated, Diagnostics& diagnostics);

}  // namespace s2t
