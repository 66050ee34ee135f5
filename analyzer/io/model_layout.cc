// Layouts, placements and element types as a model file writes them.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "analyzer/base/text.h"
#include "analyzer/io/model_sections.h"

namespace s2t {
namespace {

constexpr std::string_view kPlacements = "\"R\", \"S(dim)\", \"P\" or \"P(max)\"";

// The dim of "S(2)", -1 for the other placements, nullopt if the text is no placement.
std::optional<int64_t> sharded_dim(std::string_view text) {
  if (text == "R" || text == "P" || text == "P(sum)" || text == "P(max)") return -1;
  if (text.size() < 4 || text.substr(0, 2) != "S(" || text.back() != ')') return std::nullopt;
  const char* begin = text.data() + 2;
  const char* end = text.data() + text.size() - 1;
  int64_t dim = 0;
  const auto [stop, error] = std::from_chars(begin, end, dim);
  return stop == end && error == std::errc{} && *begin != '-' ? std::optional(dim) : std::nullopt;
}

std::optional<std::string> read_placement(const JsonCursor& at, std::optional<size_t> rank) {
  const std::optional<std::string> text = at.string();
  if (!text) return text;
  const std::optional<int64_t> dim = sharded_dim(*text);
  if (!dim) {
    at.error(fmt::format("placement {}", at.excerpt()), std::string(kPlacements), "",
             "bad-placement");
    return std::nullopt;
  }
  const int64_t dims = rank ? static_cast<int64_t>(*rank) : 127;  // a layout counts no further
  if (*dim < dims) return text;
  const std::string expected = dims == 0 ? "\"R\" or \"P\", for a scalar has no dims"
                                         : fmt::format("a dim from 0 to {}", dims - 1);
  at.error(fmt::format("placement {}", at.excerpt()), expected, "", "bad-placement");
  return std::nullopt;
}

// One axis may not be placed twice, as itself and as a part of another.
void check_overlap(const JsonCursor& at, const KnownAxis& axis,
                   const std::vector<const KnownAxis*>& earlier) {
  for (const KnownAxis* other : earlier)
    if ((axis.atoms & other->atoms) != 0)
      at.error(fmt::format("axis {} shares ranks with axis {}, which this layout names too",
                           quoted(axis.name), quoted(other->name)),
               "one of the two", "", "overlapping-axes");
}

// One tensor holds one combiner.
void check_combiner(const JsonCursor& at, const std::string& placement, const LayoutDecl& layout) {
  const auto combiner = [](std::string_view p) { return p == "P(max)" ? 'm' : 's'; };
  for (const LayoutDecl::Entry& e : layout.entries)
    if (placement[0] == 'P' && e.placement[0] == 'P' &&
        combiner(placement) != combiner(e.placement))
      at.error(fmt::format("{} beside {} over {}", quoted(placement), quoted(e.placement),
                           quoted(e.axis)),
               "one kind of Partial in one tensor", "", "mixed-partial");
}

}  // namespace

LayoutDecl read_layout(const JsonCursor& at, const KnownAxes& known, std::optional<size_t> rank) {
  LayoutDecl layout;
  layout.pointer = at.pointer();
  JsonObject object = at.object();
  std::vector<const KnownAxis*> axes;
  for (const JsonCursor& member : object.members()) {
    const KnownAxis* axis = find_axis(member, member.key(), known);
    const std::optional<std::string> placement = read_placement(member, rank);
    if (!axis || !placement || axes.size() == known.rows.size()) continue;
    if (axis->kind == AxisKind::pipeline)
      member.error(fmt::format("pipeline axis {} in a layout", quoted(axis->name)),
                   "a model or data axis", "Stages place ops, layouts never do.", "pipeline-axis");
    check_overlap(member, *axis, axes);
    check_combiner(member, *placement, layout);
    axes.push_back(axis);
    layout.entries.push_back({axis->name, *placement, member.pointer()});
  }
  return layout;
}

std::optional<DType> read_dtype(const JsonCursor& at) {
  const std::optional<std::string> text = at.string();
  if (!text) return std::nullopt;
  if (const std::optional<DType> dtype = parse_dtype(*text)) return dtype;
  std::vector<std::string> names;
  for (const DTypeInfo& row : dtypes()) names.emplace_back(row.brief);
  at.unknown("dtype", *text, names);
  return std::nullopt;
}

std::optional<Residual> read_residual(const JsonCursor& at) {
  constexpr Word<Residual> kResiduals[] = {{"used", Residual::used}, {"stored", Residual::stored}};
  return at.one_of<Residual>(kResiduals, "residual policy");
}

}  // namespace s2t
