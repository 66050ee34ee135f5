// `groups --format dot|mermaid`: ranks as nodes, a link between neighbours of a group. A large
// world is one rank with its neighbours along each axis: rank 0, or the one asked for, which is
// marked with the links of its groups.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/base/text.h"
#include "analyzer/base/unicode.h"
#include "analyzer/report/dot.h"
#include "analyzer/report/grid.h"
#include "analyzer/report/palette.h"
#include "analyzer/report/report.h"
#include "analyzer/report/short_names.h"
#include "analyzer/report/table.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

struct Link {
  int64_t from = 0, to = 0;
  size_t axis = 0;     // of Lattice::axes
  bool skips = false;  // ranks between are left out
  bool own = false;    // of a group of the rank asked for
};

struct Lattice {
  std::vector<Axis> axes;  // fastest first
  std::set<int64_t> ranks;
  std::vector<Link> links;
  std::optional<Rank> here;
};

// The rank of a line that is first along the axis.
int64_t line_of(const Mesh& mesh, const Axis& axis, int64_t rank) {
  return rank -
         mesh.coordinate(Rank(static_cast<int32_t>(rank)), axis.atoms) * axis_stride(mesh, axis);
}

// From `base` along one axis.
void add_line(Lattice& lattice, const Mesh& mesh, size_t along, int64_t base) {
  const Axis& axis = lattice.axes[along];
  const int64_t stride = axis_stride(mesh, axis);
  const bool own = lattice.here && line_of(mesh, axis, lattice.here->value) == base;
  auto shown = shown_coordinates(axis.size, shows_all_ranks(mesh) ? axis.size : 8);
  if (own) {
    const int64_t c = mesh.coordinate(*lattice.here, axis.atoms);
    const auto at = std::lower_bound(shown.begin(), shown.end(), c);
    if (at == shown.end() || *at != c) shown.insert(at, c);
  }
  for (size_t i = 0; i < shown.size(); ++i) {
    lattice.ranks.insert(base + shown[i] * stride);
    if (i > 0)
      lattice.links.push_back({base + shown[i - 1] * stride, base + shown[i] * stride, along,
                               shown[i] - shown[i - 1] > 1, own});
  }
}

Lattice lattice_of(const Mesh& mesh, bool expert, std::optional<Rank> here) {
  Lattice lattice;
  lattice.axes = drawn_axes(mesh, expert);
  lattice.here = here;
  const int64_t middle = here ? here->value : 0;
  lattice.ranks.insert(middle);
  for (size_t a = 0; a < lattice.axes.size(); ++a) {
    if (!shows_all_ranks(mesh)) {
      add_line(lattice, mesh, a, line_of(mesh, lattice.axes[a], middle));
      continue;
    }
    for (int64_t r = 0; r < mesh.world(); ++r)
      if (line_of(mesh, lattice.axes[a], r) == r) add_line(lattice, mesh, a, r);
  }
  return lattice;
}

std::string label(const Mesh& mesh, const Lattice& lattice, int64_t rank) {
  const std::string place = coordinates_text(mesh, lattice.axes, Rank(static_cast<int32_t>(rank)));
  return fmt::format("rank {}{}{}", rank, place.empty() ? "" : "\n", place);
}

std::string heading(const Program& program, const Lattice& lattice, bool expert) {
  return (expert ? "experts: " : "") + world_text(program.mesh, lattice.axes);
}

// What short names of axes stand for, a line each; "" if none had to be shortened.
std::string long_names(const Mesh& mesh, std::string_view before) {
  const ShortNames names(mesh);
  std::string text;
  for (const auto& [brief, name] : names.list())
    text += fmt::format("{}{}: {}\n", before, brief, name);
  return text;
}

// The first lattice is of the dense axes, the second, if there is one, of the expert axes.
std::vector<Lattice> lattices(const Mesh& mesh, std::optional<Rank> here) {
  std::vector<Lattice> list{lattice_of(mesh, false, here)};
  if (!drawn_axes(mesh, true).empty()) list.push_back(lattice_of(mesh, true, here));
  return list;
}

bool marked(const Lattice& lattice, int64_t rank) {
  return lattice.here && lattice.here->value == rank;
}

void dot_lattice(const Program& program, const Lattice& l, size_t index, std::string& out) {
  const Mesh& mesh = program.mesh;
  out += fmt::format("  subgraph cluster_{} {{\n    graph [label={}, style=rounded];\n", index,
                     dot_string(heading(program, l, index > 0)));
  for (const int64_t rank : l.ranks)
    out += fmt::format(
        "    g{}r{} [label={}{}];\n", index, rank, dot_string(label(mesh, l, rank)),
        marked(l, rank) ? ", style=\"rounded,filled\", fillcolor=\"#ffe08a\", penwidth=3" : "");
  for (const Link& link : l.links) {
    const bool row = link.axis == 0;
    out += fmt::format(
        "    {}g{}r{} -> g{}r{} [label={}, color=\"{}\", fontcolor=\"{}\"{}{}]{};\n",
        row ? "{ rank=same; " : "", index, link.from, index, link.to,
        dot_string((row ? "" : "\u00a0\u00a0") +
                   (link.skips ? l.axes[link.axis].name + " \u22ef" : l.axes[link.axis].name)),
        axis_look(mesh, l.axes[link.axis]).color, axis_look(mesh, l.axes[link.axis]).color,
        link.skips ? ", style=dashed" : "", link.own ? ", penwidth=7" : "", row ? " }" : "");
  }
  out += "  }\n";
}

void mermaid_lattice(const Program& program, const Lattice& l, size_t index, size_t& links,
                     std::string& out) {
  const Mesh& mesh = program.mesh;
  out += fmt::format("  subgraph g{}[{}]\n", index, mermaid_string(heading(program, l, index > 0)));
  for (const int64_t rank : l.ranks)
    out += fmt::format("    g{}r{}[{}]\n", index, rank, mermaid_string(label(mesh, l, rank)));
  for (const Link& link : l.links)
    out += fmt::format("    g{}r{} {}|{}| g{}r{}\n", index, link.from, link.skips ? "-.-" : "---",
                       mermaid_string(l.axes[link.axis].name), index, link.to);
  out += "  end\n";
  for (const Link& link : l.links)
    out += fmt::format("  linkStyle {} stroke:{},stroke-width:{}px\n", links++,
                       axis_look(mesh, l.axes[link.axis]).color, link.own ? 7 : 3);
  if (l.here)
    out += fmt::format("  style g{}r{} fill:#ffe08a,stroke-width:3px\n", index, l.here->value);
}

}  // namespace

void write_groups_dot(const Program& program, const ReportOptions& options, std::ostream& out) {
  check_rank(program, options.rank);
  std::string legend = shortened(one_line(program.model), 80) +
                       "\nprocess groups, in the order in which they are created:";
  for (const Family& family : program.families)
    legend += "\n" + family_text(program, family, options.rank);
  const std::string names = long_names(program.mesh, "");
  std::string text = fmt::format(
      "digraph groups {{\n  graph [label={}, labelloc=b, fontname=\"sans-serif\", rankdir=TB, "
      "newrank=true{}];\n"
      "  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n"
      "  edge [dir=none, penwidth=3, fontname=\"sans-serif\", fontsize=10];\n",
      dot_string(legend), names.empty() ? "" : ", tooltip=" + dot_string(capped(names)));
  size_t index = 0;
  for (const Lattice& l : lattices(program.mesh, options.rank))
    dot_lattice(program, l, index++, text);
  out << text << "}\n";
}

void write_groups_mermaid(const Program& program, const ReportOptions& options, std::ostream& out) {
  check_rank(program, options.rank);
  std::string text = "flowchart TD\n" + long_names(program.mesh, "  %% ");
  size_t index = 0, links = 0;
  for (const Lattice& l : lattices(program.mesh, options.rank))
    mermaid_lattice(program, l, index++, links, text);
  text += "  subgraph legend[\"process groups in creation order\"]\n";
  for (size_t f = 0; f < program.families.size(); ++f)
    text += fmt::format("    f{}[{}]\n", f,
                        mermaid_string(family_text(program, program.families[f], options.rank)));
  out << text << "  end\n";
}

}  // namespace s2t
