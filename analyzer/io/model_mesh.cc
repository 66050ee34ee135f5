// "mesh": axes, their order, and the second factorisation for experts.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "analyzer/base/text.h"
#include "analyzer/io/model_sections.h"

namespace s2t {
namespace {

constexpr Word<AxisKind> kKinds[] = {
    {"model", AxisKind::model}, {"data", AxisKind::data}, {"pipeline", AxisKind::pipeline}};

constexpr size_t kMostAxes = 32;

// Axis names are joined by '-' in the names of groups, so they hold only letters, digits and '_'.
std::optional<std::string> read_axis_name(const JsonCursor& at) {
  const std::optional<std::string> name = at.name();
  if (!name) return name;
  const bool plain = std::all_of(name->begin(), name->end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  });
  if (plain) return name;
  at.error(fmt::format("axis name {}", at.excerpt()), "letters, digits and \"_\" only", "",
           "bad-name");
  return std::nullopt;
}

int64_t capped_product(const std::vector<AxisDecl>& axes) {
  int64_t product = 1;
  for (const AxisDecl& axis : axes) product = std::min(product * axis.size, kMostRanks + 1);
  return product;
}

std::string factors(const std::vector<AxisDecl>& axes) {
  std::vector<std::string> sizes;
  for (const AxisDecl& axis : axes) sizes.push_back(std::to_string(axis.size));
  return join(sizes, " x ");
}

std::vector<AxisDecl> read_axis_list(const JsonCursor& at);

AxisDecl read_axis_decl(const JsonCursor& at, bool may_have_parts) {
  JsonObject object = at.object();
  AxisDecl axis;
  axis.pointer = at.pointer();
  axis.name = read_axis_name(object.required("name")).value_or("");
  axis.size = object.required("size").integer(1, kMostRanks).value_or(1);
  if (!may_have_parts) return axis;
  axis.kind = object.optional("kind").one_of<AxisKind>(kKinds, "kind").value_or(AxisKind::model);
  const JsonCursor parts = object.optional("parts");
  for (const JsonCursor& part : parts.elements())
    if (axis.parts.size() < kMostAxes) axis.parts.push_back(read_axis_decl(part, false));
  const int64_t product = capped_product(axis.parts);
  if (!axis.parts.empty() && product != axis.size)
    parts.error(fmt::format("the parts multiply to {} ({})", product, factors(axis.parts)),
                fmt::format("{}, the size of axis {}", axis.size, quoted(axis.name)), "",
                "axis-parts");
  if (!axis.parts.empty() && axis.kind == AxisKind::pipeline)
    parts.error("parts of a pipeline axis", "none", "Layouts never name a pipeline axis.",
                "axis-parts");
  return axis;
}

std::vector<AxisDecl> read_axis_list(const JsonCursor& at) {
  std::vector<AxisDecl> axes;
  const std::vector<JsonCursor> elements = at.elements();
  if (elements.size() > kMostAxes) {
    at.error(fmt::format("{} axes", elements.size()), fmt::format("at most {}", kMostAxes), "",
             "too-many-axes");
    return axes;
  }
  for (const JsonCursor& element : elements) axes.push_back(read_axis_decl(element, true));
  if (capped_product(axes) > kMostRanks)
    at.error(fmt::format("the axis sizes multiply to more than {} ranks", commas(kMostRanks)),
             "a smaller mesh", "", "too-many-ranks");
  return axes;
}

// "tp-pp-dp" (Megatron: leftmost fastest) or ["dp", "pp", "tp"] (DeviceMesh: last fastest);
// the answer is slowest first.
std::vector<std::string> read_order_names(const JsonCursor& at) {
  std::vector<std::string> names;
  if (!at.is(JsonKind::string)) {
    for (const JsonCursor& e : at.elements()) names.push_back(e.string().value_or(""));
    return names;
  }
  std::string word;
  for (const char c : at.string().value() + "-") {
    if (c != '-') {
      word += c;
      continue;
    }
    names.insert(names.begin(), word);
    word.clear();
  }
  return names;
}

void apply_order(const JsonCursor& at, std::vector<AxisDecl>& axes) {
  if (!at) return;
  if (!at.is(JsonKind::string) && !at.is(JsonKind::array))
    return at.wrong_type("a string such as \"tp-pp-dp\" or an array of axis names");
  const std::vector<std::string> order = read_order_names(at);
  std::vector<std::string> names;
  for (const AxisDecl& axis : axes) names.push_back(axis.name);
  std::vector<AxisDecl> ordered;
  for (const std::string& name : order) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) return at.unknown("axis", name, names);
    ordered.push_back(axes[static_cast<size_t>(found - names.begin())]);
  }
  const std::set<std::string> distinct(order.begin(), order.end());
  if (distinct.size() != order.size() || order.size() != axes.size())
    return at.error(fmt::format("the order {}", at.excerpt()),
                    fmt::format("every axis once: {}", quoted_list(names)), "", "axis-order");
  axes = std::move(ordered);
}

AxisShape shape_of(const AxisDecl& axis) {
  AxisShape shape{axis.name, axis.size, axis.kind, {}};
  for (const AxisDecl& part : axis.parts) shape.parts.push_back(shape_of(part));
  return shape;
}

std::vector<AxisShape> shapes_of(const std::vector<AxisDecl>& axes) {
  std::vector<AxisShape> shapes;
  for (const AxisDecl& axis : axes) shapes.push_back(shape_of(axis));
  return shapes;
}

// The runs of ranks that the axes and their parts stand for, before a Mesh can exist.
struct NamedAxis {
  const AxisDecl* axis;
  AxisKind kind;
  int64_t stride;
};

std::vector<NamedAxis> named(const std::vector<AxisDecl>& axes) {
  std::vector<NamedAxis> all, parts;
  int64_t stride = capped_product(axes);
  for (const AxisDecl& axis : axes) {
    int64_t inside = stride;
    for (const AxisDecl& part : axis.parts)
      parts.push_back({&part, axis.kind, inside /= part.size});
    all.push_back({&axis, axis.kind, stride /= axis.size});
  }
  all.insert(all.end(), parts.begin(), parts.end());
  return all;
}

// Every name once; an expert axis may repeat a dense one if both are the same ranks.
void gather_known(const MeshDecl& mesh, KnownAxes& known, Diagnostics& sink) {
  std::vector<NamedAxis> seen;
  const auto add = [&](const NamedAxis& next, bool may_repeat) {
    const auto twin = std::find_if(seen.begin(), seen.end(), [&](const NamedAxis& s) {
      return s.axis->name == next.axis->name;
    });
    if (next.axis->name.empty()) return;
    if (twin == seen.end()) {
      seen.push_back(next);
      known.rows.push_back({next.axis->name, next.axis->size, next.kind, 0});
      return;
    }
    const bool same = twin->stride == next.stride && twin->axis->size == next.axis->size &&
                      twin->kind == next.kind;
    if (may_repeat && same) return;
    sink.add({next.axis->pointer + "/name",
              fmt::format("axis name {} stands twice", quoted(next.axis->name)),
              may_repeat ? "the same size, kind and place among the ranks as in \"axes\""
                         : "distinct names",
              "", "duplicate-name"});
  };
  for (const NamedAxis& axis : named(mesh.axes)) add(axis, false);
  const size_t dense = seen.size();
  for (const NamedAxis& axis : named(mesh.expert_axes)) {
    const auto end = seen.begin() + static_cast<ptrdiff_t>(dense);
    const bool of_dense = std::any_of(
        seen.begin(), end, [&](const NamedAxis& s) { return s.axis->name == axis.axis->name; });
    add(axis, of_dense);
  }
}

void check_pipeline_axis(const JsonCursor& at, const MeshDecl& decl, const Mesh& mesh) {
  const AxisDecl* first = nullptr;
  for (const AxisDecl& axis : decl.axes) {
    if (axis.kind != AxisKind::pipeline) continue;
    if (first)
      at.sink().add({axis.pointer, fmt::format("a second pipeline axis, {}", quoted(axis.name)),
                     fmt::format("only one; {} is one already", quoted(first->name)), "",
                     "pipeline-axis"});
    first = first ? first : &axis;
  }
  AtomSet pipeline = 0;
  if (first) pipeline = mesh.find(first->name)->atoms;
  for (const AxisDecl& axis : decl.expert_axes) {
    const AtomSet atoms = mesh.find(axis.name)->atoms;
    const bool is_it = first && axis.name == first->name;
    if (!is_it && ((atoms & pipeline) != 0 || axis.kind == AxisKind::pipeline))
      at.sink().add({axis.pointer,
                     fmt::format("expert axis {} runs along the pipeline", quoted(axis.name)),
                     "the pipeline axis itself, with the same name and size, or another axis", "",
                     "pipeline-axis"});
  }
}

void place(const JsonCursor& at, const MeshDecl& decl, KnownAxes& known) {
  const auto dense = shapes_of(decl.axes);
  const auto expert = shapes_of(decl.expert_axes);
  if (const auto why = Mesh::conflict(dense, expert))
    return at.sink().add({at.pointer() + "/expert_axes", *why,
                          "two factorisations of the same ranks that nest", "", "mesh-conflict"});
  const Mesh mesh(dense, expert);
  for (KnownAxis& axis : known.rows) axis.atoms = mesh.find(axis.name)->atoms;
  check_pipeline_axis(at, decl, mesh);
}

}  // namespace

const KnownAxis* KnownAxes::find(const std::string& name) const {
  const auto it =
      std::find_if(rows.begin(), rows.end(), [&](const KnownAxis& a) { return a.name == name; });
  return it == rows.end() ? nullptr : &*it;
}

std::vector<std::string> KnownAxes::names() const {
  std::vector<std::string> all;
  for (const KnownAxis& axis : rows) all.push_back(axis.name);
  return all;
}

const KnownAxis* find_axis(const JsonCursor& at, const std::string& name, const KnownAxes& known) {
  const KnownAxis* axis = known.find(name);
  if (!axis && known.complete) at.unknown("axis", name, known.names());
  return axis;
}

const KnownAxis* read_axis(const JsonCursor& at, const KnownAxes& known) {
  const std::optional<std::string> name = at.name();
  return name ? find_axis(at, *name, known) : nullptr;
}

std::vector<std::string> read_distinct_names(const JsonCursor& at) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const JsonCursor& element : at.elements()) {
    const std::optional<std::string> name = element.name();
    if (!name) continue;
    if (seen.insert(*name).second)
      names.push_back(*name);
    else
      element.error(fmt::format("{} stands twice", quoted(*name)), "every name once", "",
                    "duplicate-name");
  }
  return names;
}

std::vector<std::string> read_axes(const JsonCursor& at, const KnownAxes& known) {
  std::vector<std::string> names = read_distinct_names(at);
  if (!at.is(JsonKind::array)) return names;
  for (const JsonCursor& element : at.elements())
    if (element.is(JsonKind::string) && element.string() != "") read_axis(element, known);
  return names;
}

namespace {

// Whether every axis and part has a name of its own, whatever else is wrong.
bool all_named(const JsonCursor& at, const std::vector<AxisDecl>& axes) {
  std::set<std::string> names{""};
  const auto is_own = [&](const AxisDecl& axis) { return names.insert(axis.name).second; };
  return !axes.empty() && axes.size() == at.elements().size() &&
         std::all_of(axes.begin(), axes.end(), [&](const AxisDecl& axis) {
           return is_own(axis) && std::all_of(axis.parts.begin(), axis.parts.end(), is_own);
         });
}

}  // namespace

MeshDecl read_mesh(const JsonCursor& at, KnownAxes& known) {
  JsonObject object = at.object();
  MeshDecl mesh;
  mesh.pointer = at.pointer();
  const size_t before = at.sink().reported();
  const JsonCursor axes = object.required("axes");
  mesh.axes = read_axis_list(axes);
  apply_order(object.optional("order"), mesh.axes);
  const JsonCursor expert = object.optional("expert_axes");
  mesh.expert_axes = read_axis_list(expert);
  apply_order(object.optional("expert_order"), mesh.expert_axes);
  const JsonCursor world = object.optional("world");
  mesh.world = world.integer(1, kMostRanks);
  gather_known(mesh, known, at.sink());
  known.complete = all_named(axes, mesh.axes) && (!expert || all_named(expert, mesh.expert_axes));
  mesh.group_order = read_axes(object.optional("group_order"), known);
  if (!known.complete || at.sink().reported() > before) return mesh;
  if (mesh.world && *mesh.world != capped_product(mesh.axes))
    world.error(fmt::format("{} ranks", *mesh.world),
                fmt::format("{}, the product of the axis sizes ({})", capped_product(mesh.axes),
                            factors(mesh.axes)),
                "", "world-size");
  place(at, mesh, known);
  return mesh;
}

}  // namespace s2t
