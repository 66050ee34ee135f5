// `groups --format svg`: the grid that the axes form, drawn without help.
//
// The two fastest axes make a grid of ranks; each further axis sets copies of what is inside it in
// frames, to the right and downwards in turn. A bar between neighbours has its axis' colour and
// dashes. In a large world only the first frame of an axis is opened.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/base/text.h"
#include "analyzer/base/unicode.h"
#include "analyzer/report/grid.h"
#include "analyzer/report/page.h"
#include "analyzer/report/palette.h"
#include "analyzer/report/report.h"
#include "analyzer/report/short_names.h"
#include "analyzer/report/table.h"
#include "analyzer/report/words.h"
#include "analyzer/report/xml.h"

namespace s2t {
namespace {

// px. A glyph of the monospace font at 12 px is at most 7.5 wide.
constexpr double kGlyph = 7.5, kCellHeight = 42, kGap = 40, kMargin = 16, kTitle = 22, kLine = 20,
                 kSwatch = 40;

constexpr std::string_view kStyle =
    "<style>"
    ".s2t-groups{font:12px ui-monospace,Menlo,Consolas,\"DejaVu Sans Mono\",monospace}"
    ".s2t-groups .paper{fill:#fff}.s2t-groups .t{fill:#222}"
    ".s2t-groups .cell{fill:#f4f4f4;stroke:#555}.s2t-groups .fold{fill:#fafafa;stroke:#999}"
    ".s2t-groups .here{fill:#ffe08a;stroke:#222;stroke-width:2.5}.s2t-groups "
    ".peer{fill:#fff6d6;stroke:#555}"
    ".s2t-groups .frame{fill:none;stroke:#999}.s2t-groups .m{text-anchor:middle}"
    ".s2t-groups .head{font-weight:bold}.s2t-groups .end{fill:#f4f4f4;stroke:#555}"
    "@media(prefers-color-scheme:dark){.s2t-groups .paper{fill:#16181c}.s2t-groups .t{fill:#eee}"
    ".s2t-groups .cell{fill:#262a30;stroke:#aaa}.s2t-groups .fold{fill:#1d2025;stroke:#777}"
    ".s2t-groups .here{fill:#5a4c10;stroke:#fff}.s2t-groups "
    ".peer{fill:#38331f;stroke:#aaa}.s2t-groups .end{fill:#262a30;stroke:#aaa}}"
    "</style>";

double width_of(std::string_view text) {
  return static_cast<double>(display_width(text)) * kGlyph;
}

std::string stroke(const AxisLook& look, double x1, double y1, double x2, double y2, double width) {
  return fmt::format(
      "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n", x1,
      y1, x2, y2, look.color, width,
      look.dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", look.dashes));
}

struct Size {
  double w = 0, h = 0;
};

class Grid {
 public:
  Grid(const Mesh& mesh, bool expert, std::optional<Rank> here)
      : mesh_(mesh), axes_(drawn_axes(mesh, expert)), here_(here), all_(shows_all_ranks(mesh)) {
    std::string longest =
        coordinates_text(mesh_, inner_axes(), Rank(static_cast<int32_t>(mesh_.world() - 1)));
    for (const Axis& a : axes_)
      longest = std::max(longest, fmt::format("{} {}", a.name, a.size),
                         [](const auto& x, const auto& y) { return x.size() < y.size(); });
    for (const Axis& a : axes_) gap_ = std::max(gap_, width_of(a.name) + 10);
    cell_width_ =
        std::max({width_of(longest), width_of(fmt::format("rank {}", mesh_.world())), 60.0}) + 16;
  }

  Size draw(double x, double y) { return block(axes_.size(), 0, x, y); }
  const std::vector<Axis>& axes() const { return axes_; }
  const std::string& text() const { return body_; }
  // The title of the marked cell or block; "" if the rank asked for is left out.
  const std::string& marked() const { return marked_; }

 private:
  std::vector<Axis> inner_axes() const {
    return {axes_.begin(), axes_.begin() + static_cast<long>(std::min<size_t>(axes_.size(), 2))};
  }

  std::vector<int64_t> shown(size_t axis) const {
    return shown_coordinates(axes_[axis].size, all_ ? 16 : axis == 0 ? 8 : 4);
  }

  // What lies inside the `levels` fastest axes, from rank `base` on.
  Size block(size_t levels, int64_t base, double x, double y) {
    return levels <= 2 ? cells(base, x, y) : frames(levels, base, x, y);
  }

  Size cells(int64_t base, double x, double y) {
    const std::vector<int64_t> one{0};
    const auto columns = axes_.empty() ? one : shown(0);
    const auto rows = axes_.size() < 2 ? one : shown(1);
    const int64_t dx = axes_.empty() ? 0 : axis_stride(mesh_, axes_[0]);
    const int64_t dy = axes_.size() < 2 ? 0 : axis_stride(mesh_, axes_[1]);
    for (size_t r = 0; r < rows.size(); ++r)
      for (size_t c = 0; c < columns.size(); ++c) {
        const double cx = x + static_cast<double>(c) * (cell_width_ + gap_);
        const double cy = y + static_cast<double>(r) * (kCellHeight + kGap);
        cell(base + rows[r] * dy + columns[c] * dx, cx, cy);
        if (c > 0)
          bar(0, cx - gap_, cy + kCellHeight / 2, cx, cy + kCellHeight / 2,
              columns[c] - columns[c - 1], r == 0, base + rows[r] * dy);
        if (r > 0)
          bar(1, cx + cell_width_ / 2, cy - kGap, cx + cell_width_ / 2, cy, rows[r] - rows[r - 1],
              c == 0, base + columns[c] * dx);
      }
    const auto n = static_cast<double>(columns.size()), m = static_cast<double>(rows.size());
    return {n * cell_width_ + (n - 1) * gap_, m * kCellHeight + (m - 1) * kGap};
  }

  void cell(int64_t rank, double x, double y) {
    const Rank r(static_cast<int32_t>(rank));
    const bool here = here_ && *here_ == r;
    if (here) marked_ = fmt::format("rank {}", rank);
    const bool peer = here_ && axes_that_differ(r) == 1;
    rect(here ? "here" : peer ? "peer" : "cell", x, y, cell_width_, kCellHeight, 5);
    words("t m head", x + cell_width_ / 2, y + 17, fmt::format("rank {}", rank));
    words("t m", x + cell_width_ / 2, y + 33, coordinates_text(mesh_, inner_axes(), r));
  }

  // Copies of the inner block along one axis: to the right for the third axis, down for the fourth.
  Size frames(size_t levels, int64_t base, double x, double y) {
    const size_t axis = levels - 1;
    const bool right = axis % 2 == 0;
    const int64_t stride = axis_stride(mesh_, axes_[axis]);
    const std::vector<int64_t> slots = shown(axis);
    Size total, before;
    for (size_t i = 0; i < slots.size(); ++i) {
      const double at = i == 0 ? 0 : right ? total.w + gap_ : total.h + kGap;
      const double fx = right ? x + at : x, fy = right ? y : y + at;
      const int64_t first = base + slots[i] * stride;
      const Size inner = all_ || i == 0
                             ? block(levels - 1, first, fx + 10, fy + kTitle)
                             : folded(first, stride, fx + 10, fy + kTitle, right, before);
      const std::string title = fmt::format("{} {}", axes_[axis].name, slots[i]);
      const Size framed{std::max(inner.w, width_of(title)) + 20, inner.h + kTitle + 10};
      rect("frame", fx, fy, framed.w, framed.h, 8);
      words("t", fx + 10, fy + 15, title);
      if (i > 0 && right)
        bar(axis, fx - gap_, y + kTitle + 14, fx, y + kTitle + 14, slots[i] - slots[i - 1], true,
            base);
      else if (i > 0)
        bar(axis, x + 40, fy - kGap, x + 40, fy, slots[i] - slots[i - 1], true, base);
      total.w = right ? at + framed.w : std::max(total.w, framed.w);
      total.h = right ? std::max(total.h, framed.h) : at + framed.h;
      if (i == 0) before = inner;
    }
    return total;
  }

  // A copy that is not opened: as high as the open one beside it, or as wide as the one above.
  Size folded(int64_t first, int64_t count, double x, double y, bool right, Size open) {
    const std::string text = count == 1 ? fmt::format("rank {}", first)
                                        : fmt::format("ranks {}-{}", first, first + count - 1);
    const Size size{right ? width_of(text) + 20 : open.w, right ? open.h : kCellHeight - 8};
    const bool here = here_ && here_->value >= first && here_->value < first + count;
    if (here) marked_ = text;
    rect(here ? "here" : "fold", x, y, size.w, size.h, 5);
    words("t m", x + size.w / 2, y + size.h / 2 + 4, text);
    return size;
  }

  size_t axes_that_differ(Rank rank) const {
    return static_cast<size_t>(std::count_if(axes_.begin(), axes_.end(), [&](const Axis& a) {
      return mesh_.coordinate(rank, a.atoms) != mesh_.coordinate(*here_, a.atoms);
    }));
  }

  // Whether a line along an axis is of the rank asked for: `first`, the least rank on it, is like
  // it along every axis but those that lie inside one stroke of the line.
  bool own(size_t axis, int64_t first) const {
    if (!here_) return false;
    const Rank rank(static_cast<int32_t>(first));
    for (size_t a = 0; a < axes_.size(); ++a) {
      const bool inside = a == axis || (axis > 1 && a < axis);
      if (!inside &&
          mesh_.coordinate(rank, axes_[a].atoms) != mesh_.coordinate(*here_, axes_[a].atoms))
        return false;
    }
    return true;
  }

  // Between neighbours on the line along an axis whose least rank is `first`.
  void bar(size_t axis, double x1, double y1, double x2, double y2, int64_t steps, bool named,
           int64_t first) {
    const bool flat = y1 == y2;
    const int width = (steps == 1 ? 5 : 3) + (own(axis, first) ? 5 : 0);
    body_ += stroke(axis_look(mesh_, axes_[axis]), x1, y1, x2, y2, width);
    const std::string name = steps > 1 ? "\u22ef" : axes_[axis].name;
    if (!named && steps == 1) return;
    if (flat)
      words("t m", (x1 + x2) / 2, y1 - 5 - width / 2, name);
    else
      words("t", x1 + 8, (y1 + y2) / 2 + 4, name);
  }

  void rect(std::string_view style, double x, double y, double w, double h, int round) {
    body_ +=
        fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\"/>\n",
                    style, x, y, w, h, round);
  }
  void words(std::string_view style, double x, double y, const std::string& text) {
    body_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n", style, x, y,
                         svg_text(text));
  }

  const Mesh& mesh_;
  const std::vector<Axis> axes_;
  std::optional<Rank> here_;
  bool all_;
  double cell_width_ = 80, gap_ = kGap;
  std::string body_, marked_;
};

class Picture {
 public:
  Picture(const Program& program, std::optional<Rank> here)
      : program_(program), short_(program.mesh), here_(here) {}

  std::string text() {
    line("t head", shortened(one_line(program_.model), 80));
    grid(false);
    if (!drawn_axes(program_.mesh, true).empty()) grid(true);
    if (here_)
      line("t", fmt::format("thick: the groups of rank {} along each axis, other members tinted",
                            here_->value));
    line("t head", shows_all_ranks(program_.mesh)
                       ? "Process groups, in the order in which they are created"
                       : "Process groups, in creation order; \u22ef stands for the ranks between");
    for (const Family& family : program_.families) legend(family);
    const double height = y_ + kMargin;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"s2t-groups\" role=\"img\" "
               "aria-label=\"{}\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\">\n",
               xml_escaped("process groups of " + program_.model), width_, height, width_, height) +
           std::string(kStyle) + "\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n" +
           body_ + "</svg>\n";
  }

 private:
  void line(std::string_view style, const std::string& text, double x = kMargin,
            const std::string& title = "") {
    y_ += kLine;
    const std::string drawn =
        fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>", style, x, y_, svg_text(text));
    body_ += title.empty() ? drawn + "\n"
                           : fmt::format("<g><title>{}</title>{}</g>\n", xml_escaped(title), drawn);
    width_ = std::max(width_, x + width_of(text) + kMargin);
  }

  void grid(bool expert) {
    Grid grid(program_.mesh, expert, here_);
    line("t", (expert ? "experts: " : "") + world_text(program_.mesh, grid.axes()));
    y_ += 14;
    const Size size = grid.draw(kMargin, y_);
    body_ += grid.text();
    y_ += size.h + 12;
    if (!shows_all_ranks(program_.mesh) && here_) line("t", place(grid));
    width_ = std::max(width_, size.w + 2 * kMargin);
  }

  // Where the rank asked for is, in a grid that does not show all.
  std::string place(const Grid& grid) const {
    const std::string own = fmt::format("rank {}", here_->value);
    const std::string text = own + ": " + coordinates_text(program_.mesh, grid.axes(), *here_);
    if (grid.marked() == own) return text;
    return text + (grid.marked().empty()
                       ? ", among the ranks that \u22ef stands for"
                       : ", in the marked block \u201c" + grid.marked() + "\u201d");
  }

  // A stroke for each axis that the group spans; with ends if it is not the group of the axis.
  void legend(const Family& family) {
    line("t", family_text(program_, family, here_), kMargin + kSwatch + 10, full(family.name));
    const auto n = static_cast<double>(family.axes.size());
    const double thick = std::min(5.0, 14 / std::max(n, 1.0) - 1), middle = y_ - 4;
    for (size_t i = 0; i < family.axes.size(); ++i) {
      const double y = middle + (static_cast<double>(i) - (n - 1) / 2) * (thick + 1);
      body_ +=
          stroke(axis_look(program_.mesh, family.axes[i]), kMargin, y, kMargin + kSwatch, y, thick);
    }
    const bool of_axis = family.axes.size() != 1 || family.name == family.axes.front();
    if (family.members.empty() && of_axis) return;
    for (const double x : {kMargin + 3, kMargin + kSwatch - 3})
      body_ += fmt::format("<circle class=\"end\" cx=\"{}\" cy=\"{}\" r=\"5\"/>\n", x, middle);
  }

  // The name, if the picture shortens it.
  std::string full(const std::string& name) const { return short_(name) == name ? "" : name; }

  const Program& program_;
  const ShortNames short_;
  std::optional<Rank> here_;
  double y_ = 4, width_ = 0;
  std::string body_;
};

}  // namespace

std::string groups_svg(const Program& program, const ReportOptions& options) {
  return Picture(program, options.rank).text();
}

void write_groups_svg(const Program& program, const ReportOptions& options, std::ostream& out) {
  check_rank(program, options.rank);
  out << groups_svg(program, options);
}

}  // namespace s2t
