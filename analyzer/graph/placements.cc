#include "analyzer/graph/placements.h"

#include <fmt/format.h>

#include <charconv>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

std::optional<int> shard_dim(const std::string& text) {
  if (text.size() < 4 || text.rfind("S(", 0) != 0 || text.back() != ')') return std::nullopt;
  int dim = -1;
  const char* end = text.data() + text.size() - 1;
  const auto [stop, error] = std::from_chars(text.data() + 2, end, dim);
  if (error != std::errc() || stop != end || dim < 0 || dim > 100) return std::nullopt;
  return dim;
}

}  // namespace

std::optional<Placement> parse_placement(const std::string& text) {
  if (text == "R") return Placement::R();
  if (text == "P" || text == "P(sum)") return Placement::P();
  if (text == "P(max)") return Placement::P(Combiner::max);
  if (const auto dim = shard_dim(text)) return Placement::S(*dim);
  return std::nullopt;
}

std::vector<std::optional<Placement>> read_layout(const LayoutDecl& decl, const Mesh& mesh,
                                                  size_t dims, Diagnostics& diagnostics) {
  std::vector<std::optional<Placement>> placements(mesh.atoms().size());
  for (const LayoutDecl::Entry& entry : decl.entries) {
    const Axis* axis = mesh.find(entry.axis);
    const auto placement = parse_placement(entry.placement);
    if (!axis) {
      const auto names = mesh.axis_names();
      diagnostics.add({entry.pointer, "no axis named " + quoted(entry.axis),
                       "an axis of the mesh (" + quoted_list(names) + ")",
                       did_you_mean(entry.axis, names), "unknown-axis"});
    } else if (!placement) {
      diagnostics.add({entry.pointer, quoted(entry.placement) + " is no placement",
                       "\"R\", \"S(dim)\", \"P\" or \"P(max)\"", "", "bad-placement"});
    } else if (placement->is_shard() && static_cast<size_t>(placement->dim) >= dims) {
      diagnostics.add({entry.pointer,
                       fmt::format("{} names dim {} of a tensor with {} dims", entry.placement,
                                   int{placement->dim}, dims),
                       dims ? fmt::format("a dim from 0 to {}", dims - 1) : "a tensor with dims",
                       "", "bad-placement"});
    } else if (axis->kind == AxisKind::pipeline && !placement->is_replicate()) {
      diagnostics.add({entry.pointer, "axis " + quoted(entry.axis) + " is the pipeline axis",
                       "an axis of kind model or data", "Give ops a \"stage\" instead.",
                       "pipeline-layout"});
    } else {
      for (size_t i = 0; i < placements.size(); ++i)
        if (s2t::contains(axis->atoms, AtomIndex(i))) placements[i] = *placement;
    }
  }
  return placements;
}

void check_divides(const Shape& shape, const Layout& layout, bool uneven, const Mesh& mesh,
                   const std::string& pointer, const LayoutDecl* stated, Diagnostics& diagnostics) {
  for (size_t d = 0; d < shape.size(); ++d) {
    const AtomSet set = layout.sharding(static_cast<int>(d));
    const int64_t n = mesh.size(set);
    if (n == 1 || shape[d] % n == 0) continue;
    const Family family = mesh.family_of(set);
    const bool one_axis = family.axes.size() == 1;
    if (uneven && one_axis) continue;
    const std::string* blamed = &pointer;
    if (stated)
      for (const LayoutDecl::Entry& e : stated->entries)
        if (e.axis == family.name) blamed = &e.pointer;
    diagnostics.add({*blamed,
                     fmt::format("axis {} (size {}) does not divide dim {} (size {})",
                                 quoted(family.name), n, d, shape[d]),
                     fmt::format("a multiple of {}", n),
                     uneven ? "Uneven parts work along one axis only; pad the dim."
                            : "Pad the dim, change the axis, or say \"uneven\": \"ceil\".",
                     "indivisible"});
  }
}

}  // namespace s2t
