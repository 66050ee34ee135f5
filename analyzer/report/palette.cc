#include "analyzer/report/palette.h"

#include <array>
#include <string>

namespace s2t {
namespace {

constexpr std::array<std::string_view, 7> kColors{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                  "#b8860b", "#56b4e9", "#8b5a2b"};
constexpr std::array<std::string_view, 8> kDashes{"",    "7 3",          "2 3",  "9 3 2 3",
                                                  "4 4", "10 2 2 2 2 2", "16 5", "1 1.5"};

}  // namespace

AxisLook axis_look(const Mesh& mesh, const Axis& axis) {
  size_t place = 0;
  for (const bool expert : {false, true})
    for (auto it = mesh.axes().rbegin(); it != mesh.axes().rend(); ++it) {
      if (it->part || it->expert != expert) continue;
      if (it->atoms == axis.atoms && it->expert == axis.expert && it->size == axis.size)
        return {kColors[place % kColors.size()], kDashes[place % kDashes.size()]};
      ++place;
    }
  return {"#666666", ""};
}

AxisLook axis_look(const Mesh& mesh, std::string_view axis) {
  const Axis* found = mesh.find(std::string(axis));
  return found ? axis_look(mesh, *found) : AxisLook{"#666666", ""};
}

}  // namespace s2t
