// What tells axes apart, the same in every picture: a colour that the colour-blind know too (Okabe
// and Ito, "Color Universal Design"), and dashes, so that nothing is said by colour alone.
#pragma once

#include <string_view>

#include "analyzer/mesh/mesh.h"

namespace s2t {

struct AxisLook {
  std::string_view color;
  std::string_view dashes;  // an SVG dash array; empty: a solid line
};

// Of an axis by its place in the mesh: dense before expert axes, fastest first. No two of the first
// 56 look alike.
AxisLook axis_look(const Mesh& mesh, const Axis& axis);
AxisLook axis_look(const Mesh& mesh, std::string_view axis);  // by its name

}  // namespace s2t
