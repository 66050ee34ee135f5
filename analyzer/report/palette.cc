#include "analyzer/report/palette.h"

namespace s2t {

std::string_view axis_color(const Mesh& mesh, std::string_view axis) {
  size_t place = 0;
  for (const bool expert : {false, true})
    for (auto it = mesh.axes().rbegin(); it != mesh.axes().rend(); ++it) {
      if (it->part || it->expert != expert) continue;
      if (it->name == axis) return kAxisColors[place % kAxisColors.size()];
      ++place;
    }
  return "#666666";
}

}  // namespace s2t
