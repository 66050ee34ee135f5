// Colours of axes, the same in every picture, told apart also by the colour-blind (Okabe and Ito,
// "Color Universal Design"); nothing is said by colour alone.
#pragma once

#include <array>
#include <string_view>

#include "analyzer/mesh/mesh.h"

namespace s2t {

inline constexpr std::array<std::string_view, 7> kAxisColors{
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#8b5a2b"};

// Of an axis by its place in the mesh: dense before expert axes, fastest first.
std::string_view axis_color(const Mesh& mesh, std::string_view axis);

}  // namespace s2t
