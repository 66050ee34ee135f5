// A diagram as a Mermaid flowchart.
#include <fmt/format.h>

#include "analyzer/report/diagram.h"
#include "analyzer/report/dot.h"
#include "analyzer/report/palette.h"

namespace s2t {
namespace {

struct Brackets {
  std::string_view open, close;
};

Brackets brackets(BoxKind kind) {
  static constexpr Brackets kBrackets[] = {
      {">", "]"}, {"[", "]"}, {"([", "])"}, {"{{", "}}"}, {"[/", "/]"}, {"[[", "]]"}, {"[/", "\\]"},
  };
  return kBrackets[static_cast<size_t>(kind)];
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return mermaid_string(text);
}

std::string_view line(ArrowKind kind) {
  return kind == ArrowKind::value ? "-->" : kind == ArrowKind::gradient ? "-.->" : "---";
}

class Writer {
 public:
  Writer(const Diagram& diagram, const Mesh& mesh) : d_(diagram), mesh_(mesh) {}

  std::string text() {
    out_ = "flowchart TD\n";
    out_ += fmt::format("  legend[{}]\n", mermaid_string(diagram_heading(d_, Drawn::by_mermaid)));
    frame(-1, "  ");
    for (const Arrow& a : d_.arrows) {
      out_ += fmt::format("  n{} {}", a.from, line(a.kind));
      if (!a.lines.empty()) out_ += "|" + joined(a.lines) + "|";
      out_ += fmt::format(" n{}\n", a.to);
    }
    styles();
    return out_;
  }

 private:
  void frame(int at, const std::string& indent) {
    for (size_t b = 0; b < d_.boxes.size(); ++b) {
      if (d_.boxes[b].frame != at) continue;
      const Brackets shape = brackets(d_.boxes[b].kind);
      out_ += fmt::format("{}n{}{}{}{}\n", indent, b, shape.open, joined(d_.boxes[b].lines),
                          shape.close);
    }
    for (size_t f = 0; f < d_.frames.size(); ++f) {
      if (d_.frames[f].parent != at) continue;
      out_ += fmt::format("{}subgraph f{}[{}]\n", indent, f, mermaid_string(d_.frames[f].title));
      frame(static_cast<int>(f), indent + "  ");
      out_ += indent + "end\n";
    }
  }

  void styles() {
    for (size_t b = 0; b < d_.boxes.size(); ++b) {
      const Box& box = d_.boxes[b];
      if (box.axis.empty()) continue;
      out_ +=
          fmt::format("  style n{} stroke:{},stroke-width:2px{}\n", b,
                      axis_look(mesh_, box.axis).color, box.pruned ? ",stroke-dasharray:5 5" : "");
    }
  }

  const Diagram& d_;
  const Mesh& mesh_;
  std::string out_;
};

}  // namespace

std::string diagram_mermaid(const Diagram& diagram, const Mesh& mesh) {
  return Writer(diagram, mesh).text();
}

}  // namespace s2t
