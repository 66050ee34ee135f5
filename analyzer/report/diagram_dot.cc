// A diagram in Graphviz's language; `class` marks what a page may restyle.
#include <fmt/format.h>

#include "analyzer/base/unicode.h"
#include "analyzer/report/diagram.h"
#include "analyzer/report/dot.h"
#include "analyzer/report/palette.h"

namespace s2t {
namespace {

struct Look {
  std::string_view name;  // class
  std::string_view shape;
  std::string_view style;
};

const Look& look(BoxKind kind) {
  static constexpr Look kLooks[] = {
      {"leaf", "plaintext", ""},
      {"op", "box", "filled"},
      {"forward", "box", "rounded,bold"},
      {"backward", "hexagon", "bold"},
      {"recompute", "parallelogram", "bold"},
      {"grad_sync", "octagon", "bold"},
      {"step", "note", "bold"},
  };
  return kLooks[static_cast<size_t>(kind)];
}

std::string joined(const std::vector<std::string>& lines, std::string_view indent = "") {
  std::string text;
  for (const std::string& line : lines)
    text += (text.empty() ? "" : "\n") + std::string(indent) + line;
  return text;
}

// Before each line of a label: Graphviz sets it close to its arrow, and browsers skip plain spaces.
constexpr std::string_view kOffTheArrow = "\u00a0\u00a0";

std::string_view line_style(ArrowKind kind) {
  return kind == ArrowKind::value ? "solid" : kind == ArrowKind::gradient ? "dashed" : "dotted";
}

std::string_view line_class(ArrowKind kind) {
  return kind == ArrowKind::value ? "value" : kind == ArrowKind::gradient ? "gradient" : "order";
}

// A bitmap of more is as long in the writing as in the layout, so it gets fewer pixels; 72 is what
// SVG has anyway.
constexpr size_t kManyBoxes = 120;

class Writer {
 public:
  Writer(const Diagram& diagram, const Mesh& mesh) : d_(diagram), mesh_(mesh) {
    from_value_.resize(d_.boxes.size());
    for (const Arrow& a : d_.arrows)
      if (a.kind == ArrowKind::value) from_value_[a.to] = true;
  }

  std::string text() {
    out_ = "digraph shape2trace {\n";
    out_ += fmt::format(
        "  graph [label={}, labelloc=t, fontname=\"sans-serif\", fontsize=12, "
        "bgcolor=white, rankdir=TB, nodesep=0.3, ranksep=0.35{}];\n",
        dot_string(diagram_heading(d_, Drawn::by_graphviz)),
        d_.boxes.size() > kManyBoxes ? ", dpi=72" : "");
    out_ +=
        "  node [fontname=\"sans-serif\", fontsize=11, margin=\"0.14,0.07\", color=\"#444444\", "
        "fillcolor=\"#f2f2f2\"];\n";
    out_ += "  edge [fontname=\"sans-serif\", fontsize=10, color=\"#444444\", arrowsize=0.7];\n";
    frame(-1, "  ");
    for (const Arrow& a : d_.arrows) arrow(a);
    return out_ + "}\n";
  }

 private:
  void frame(int at, const std::string& indent) {
    for (size_t b = 0; b < d_.boxes.size(); ++b)
      if (d_.boxes[b].frame == at) box(b, indent);
    for (size_t f = 0; f < d_.frames.size(); ++f) {
      if (d_.frames[f].parent != at) continue;
      out_ += fmt::format("{}subgraph cluster_{} {{\n", indent, f);
      out_ += fmt::format(
          "{}  graph [label={}, labeljust=l, style=rounded, color=\"#999999\", "
          "class=\"frame\"];\n",
          indent, dot_string(d_.frames[f].title));
      frame(static_cast<int>(f), indent + "  ");
      out_ += indent + "}\n";
    }
  }

  void box(size_t index, const std::string& indent) {
    const Box& b = d_.boxes[index];
    const Look& l = look(b.kind);
    std::string style(l.style);
    if (b.pruned) style = b.kind == BoxKind::forward ? "rounded,dashed" : "dashed";
    out_ +=
        fmt::format("{}n{} [label={}, shape={}, style=\"{}\", class=\"{}{}\"", indent, index,
                    dot_string(joined(b.lines)), l.shape, style, l.name, b.pruned ? " pruned" : "");
    if (b.kind == BoxKind::leaf) out_ += ", margin=\"0.04,0.02\", width=0.3, height=0.25";
    if (l.shape == "hexagon" || l.shape == "octagon") out_ += ", margin=\"0.02,0.02\"";
    if (!b.axis.empty()) out_ += fmt::format(", color=\"{}\"", axis_look(mesh_, b.axis).color);
    if (!b.tooltip.empty()) out_ += ", tooltip=" + dot_string(one_line(capped(b.tooltip)));
    out_ += "];\n";
  }

  // Not a gathered parameter, which comes from the side.
  bool on_the_way(size_t box) const {
    const BoxKind kind = d_.boxes[box].kind;
    return kind == BoxKind::leaf || kind == BoxKind::op || from_value_[box];
  }

  // Gradients go against the values; `dir=back` keeps the ranks of the values.
  void arrow(const Arrow& a) {
    const bool up = a.kind == ArrowKind::gradient && a.from > a.to;
    out_ += fmt::format("  n{} -> n{} [", up ? a.to : a.from, up ? a.from : a.to);
    if (!a.lines.empty()) out_ += "label=" + dot_string(joined(a.lines, kOffTheArrow)) + ", ";
    out_ += fmt::format("style={}, class=\"{}{}\"", line_style(a.kind), line_class(a.kind),
                        a.pruned ? " pruned" : "");
    if (a.kind == ArrowKind::value && on_the_way(a.from)) out_ += ", weight=8";  // straight down
    if (a.kind == ArrowKind::order) out_ += ", arrowhead=vee";
    if (up) out_ += ", dir=back";
    if (!a.tooltip.empty()) {
      const std::string tooltip = dot_string(one_line(capped(a.tooltip)));
      out_ += fmt::format(", edgetooltip={}, labeltooltip={}", tooltip, tooltip);
    }
    if (a.pruned) out_ += ", color=\"#999999\"";
    out_ += "];\n";
  }

  const Diagram& d_;
  const Mesh& mesh_;
  std::vector<bool> from_value_;  // by box: a value arrives
  std::string out_;
};

}  // namespace

std::string diagram_dot(const Diagram& diagram, const Mesh& mesh) {
  return Writer(diagram, mesh).text();
}

}  // namespace s2t
