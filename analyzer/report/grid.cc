#include "analyzer/report/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "analyzer/base/text.h"
#include "analyzer/program/listing.h"
#include "analyzer/report/short_names.h"
#include "analyzer/report/table.h"
#include "analyzer/report/words.h"

namespace s2t {

std::vector<Axis> drawn_axes(const Mesh& mesh, bool expert) {
  std::vector<Axis> axes = expert ? expert_axes(mesh) : dense_axes(mesh);
  std::erase_if(axes, [](const Axis& a) { return a.size == 1; });
  std::reverse(axes.begin(), axes.end());
  const ShortNames brief(mesh);
  for (Axis& a : axes) a.name = brief(a.name);
  return axes;
}

int64_t axis_stride(const Mesh& mesh, const Axis& axis) {
  int64_t stride = mesh.world();
  for (size_t i = 0; i < mesh.atoms().size(); ++i)
    if (contains(axis.atoms, AtomIndex(i))) stride = std::min(stride, mesh.atoms()[i].stride);
  return stride;
}

std::vector<int64_t> shown_coordinates(int64_t size, int64_t most) {
  if (size > most) return {0, 1, size - 1};
  std::vector<int64_t> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

bool shows_all_ranks(const Mesh& mesh) {
  return mesh.world() <= kExplicitRanks;
}

std::string coordinates_text(const Mesh& mesh, const std::vector<Axis>& fastest_first, Rank rank) {
  std::string text;
  for (auto axis = fastest_first.rbegin(); axis != fastest_first.rend(); ++axis)
    text += fmt::format("{}{} {}", text.empty() ? "" : " ", axis->name,
                        mesh.coordinate(rank, axis->atoms));
  return text;
}

std::string family_text(const Program& program, const Family& family, std::optional<Rank> rank) {
  const Mesh& mesh = program.mesh;
  const int64_t groups = mesh.group_count(family), size = mesh.group_size(family);
  std::string text = fmt::format(
      "{}: {} group{} of {}", shortened(ShortNames(mesh)(family.name), 40),
      commas(static_cast<Count>(groups)), groups == 1 ? "" : "s", commas(static_cast<Count>(size)));
  if (const auto stride = mesh.stride(family); stride && size > 1)
    text += fmt::format(", stride {}", commas(static_cast<Count>(*stride)));
  if (!rank) return text + "; the first is " + rank_list(first_group(mesh, family), 8);
  const std::vector<Rank> own = mesh.group_of(family, *rank);
  return text + (own.empty() ? fmt::format("; rank {} is in none", rank->value)
                             : fmt::format("; rank {} is in {}", rank->value, rank_list(own, 8)));
}

std::string world_text(const Mesh& mesh, const std::vector<Axis>& fastest_first) {
  std::string product;
  for (auto axis = fastest_first.rbegin(); axis != fastest_first.rend(); ++axis)
    product += fmt::format("{}{} {}", product.empty() ? " = " : " x ", axis->name,
                           commas(static_cast<Count>(axis->size)));
  return fmt::format("{} rank{}{}", commas(static_cast<Count>(mesh.world())),
                     mesh.world() == 1 ? "" : "s", product);
}

}  // namespace s2t
