#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "analyzer/base/text.h"
#include "analyzer/base/unicode.h"
#include "analyzer/report/timeline.h"
#include "analyzer/report/xml.h"

namespace s2t {
namespace {

// Lengths in px. A glyph of the monospace font at 11 px is at most 7 wide.
constexpr double kGlyph = 7, kCell = 22, kGap = 20, kMargin = 12;
constexpr double kFirstLine = 18, kLine = 16;  // of the heading
constexpr double kStub = 13;                   // of a message around the ends, outside the rows
constexpr double kWidest = 6000;               // of the time axis
constexpr size_t kMostCells = 20000;           // what a browser still scrolls smoothly
constexpr size_t kMostMessages = 4000;
constexpr size_t kLongestName = 24, kLongestTitle = 100;  // columns

constexpr std::string_view kStyle =
    "<style>"
    ".s2t-timeline{font:11px ui-monospace,Menlo,Consolas,monospace}"
    // Grey for renderers that know no media queries: legible on white and on black.
    ".s2t-timeline .t{fill:#808080}.s2t-timeline .rule{stroke:#8888}"
    ".s2t-timeline .F{fill:#9ecae1}.s2t-timeline .B{fill:#fdd0a2}"
    ".s2t-timeline .F.odd{fill:#6baed6}.s2t-timeline .B.odd{fill:#fdae6b}"
    ".s2t-timeline .F,.s2t-timeline .B{stroke:#333;stroke-width:.5}"
    ".s2t-timeline .cell{fill:#111;text-anchor:middle}"
    ".s2t-timeline .msg{stroke:#3182bd}.s2t-timeline .grad{stroke:#e6550d;stroke-dasharray:3 2}"
    ".s2t-timeline .steady{stroke:#31a354;stroke-width:3}"
    ".s2t-timeline .warm-up,.s2t-timeline .drain{stroke:#888;stroke-width:1.5}"
    ".s2t-timeline .drain{stroke-dasharray:4 3}"
    ".s2t-timeline .msg{marker-end:url(#s2t-msg)}.s2t-timeline .grad{marker-end:url(#s2t-grad)}"
    ".s2t-timeline .msg-head{fill:#3182bd}.s2t-timeline .grad-head{fill:#e6550d}"
    "@media(prefers-color-scheme:light){.s2t-timeline .t{fill:#333}}"
    "@media(prefers-color-scheme:dark){.s2t-timeline .t{fill:#ddd}"
    ".s2t-timeline .F,.s2t-timeline .B{stroke:#ddd}}"
    "</style>";

constexpr std::string_view kHeads =
    "<defs>"
    "<marker id=\"s2t-msg\" markerUnits=\"userSpaceOnUse\" markerWidth=\"7\" markerHeight=\"6\" "
    "refX=\"7\" refY=\"3\" orient=\"auto\"><path class=\"msg-head\" d=\"M0 0L7 3L0 6z\"/></marker>"
    "<marker id=\"s2t-grad\" markerUnits=\"userSpaceOnUse\" markerWidth=\"7\" markerHeight=\"6\" "
    "refX=\"7\" refY=\"3\" orient=\"auto\"><path class=\"grad-head\" d=\"M0 0L7 3L0 6z\"/></marker>"
    "</defs>";

std::string px(double x) {
  return timeline_number(std::round(x * 100) / 100);
}

std::string shortened(const std::string& name, size_t most = kLongestName) {
  std::string out;
  for (const char c : name) {
    const bool starts = (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (starts && display_width(out) + 1 >= most) return out + "\u2026";
    out += c;
  }
  return out;
}

class Drawing {
 public:
  explicit Drawing(const Timeline& t) : t_(t) {
    size_t widest = 0;
    for (const TimelineRow& row : t_.rows)
      widest = std::max(widest, display_width(shortened(row.label)));
    left_ = kMargin + static_cast<double>(widest) * kGlyph + 10;
    choose_scale();
    find_sends();
    choose_heading();
  }

  std::string text() {
    for (size_t r = 0; r < t_.rows.size(); ++r) bands(r);
    messages();
    for (size_t r = 0; r < t_.rows.size(); ++r) row(r);
    axis();
    for (size_t i = 0; i < heading_.size(); ++i)
      words(kMargin, kFirstLine + static_cast<double>(i) * kLine, heading_[i]);
    const double bottom = row_y(t_.rows.size()) + 34;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"s2t-timeline\" role=\"img\" "
               "aria-label=\"{}\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\">\n",
               xml_escaped(timeline_summary(t_)), px(width_), px(bottom), px(width_), px(bottom)) +
           std::string(kStyle) + std::string(kHeads) + "\n" + body_ + "</svg>\n";
  }

 private:
  double x(double time) const { return left_ + time * scale_; }
  double row_y(size_t r) const { return top_ + static_cast<double>(r) * (kCell + kGap); }

  // The shortest computation holds its label, unless the picture gets too wide; `until_` is where
  // it stops when there are too many cells.
  void choose_scale() {
    double shortest = 0;
    size_t label_width = 1, cells = 0;
    for (const TimelineRow& row : t_.rows)
      for (const TimelineSpan& s : row.spans) {
        if (!is_compute(s)) continue;
        ++cells;
        label_width = std::max(label_width, label(s).size());
        const double d = s.end - s.start;
        if (d > 0 && (shortest == 0 || d < shortest)) shortest = d;
      }
    until_ = t_.makespan;
    if (cells > kMostCells) until_ *= static_cast<double>(kMostCells) / static_cast<double>(cells);
    const double wanted = static_cast<double>(label_width) * kGlyph + 6;
    if (shortest > 0) scale_ = wanted / shortest;
    if (until_ > 0) scale_ = std::min(scale_, kWidest / until_);
    nudge_ = std::min(6.0, shortest * scale_ / 4);
  }

  void choose_heading() {
    const bool chunks = t_.chunks > 1;
    heading_ = {shortened(one_line(t_.title), kLongestTitle), timeline_summary(t_)};
    heading_.push_back(
        std::string(chunks ? "F3.1, B3.1: forward and backward of microbatch 3 in chunk 1; light "
                             "even chunks, dark odd ones"
                           : "F3, B3: forward and backward of microbatch 3") +
        (t_.forward_only ? ""
         : chunks        ? "; an activation is of one microbatch and chunk"
                         : "; an activation is of one microbatch"));
    const std::string arrows = std::string("arrows: solid activations, dashed gradients") +
                               (chunks ? ", short ones between last and first rank" : "");
    heading_.push_back("line under a row: thin warm-up, thick steady, dashed drain");
    if (!sent_.empty())
      heading_.back() += "; " + (draws_messages() ? arrows : "messages are too many to draw");
    if (until_ < t_.makespan)
      heading_.push_back(fmt::format("cut at {} of {} {}; the chrome format shows all",
                                     timeline_number(until_), timeline_number(t_.makespan),
                                     t_.unit));
    std::erase(heading_, "");
    top_ = kFirstLine + static_cast<double>(heading_.size() - 1) * kLine + 10 + kStub;
  }

  void line(double x1, double y1, double x2, double y2, std::string_view style) {
    body_ += fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", style,
                         px(x1), px(y1), px(x2), px(y2));
  }

  void words(double at_x, double at_y, const std::string& text) {
    body_ += fmt::format("<text class=\"t\" x=\"{}\" y=\"{}\">{}</text>\n", px(at_x), px(at_y),
                         svg_text(text));
    width_ = std::max(width_, at_x + static_cast<double>(display_width(text)) * kGlyph + kMargin);
  }

  void find_sends() {
    for (size_t r = 0; r < t_.rows.size(); ++r)
      for (const TimelineSpan& s : t_.rows[r].spans)
        if (is_send(s)) sent_[s.flow] = {r, s.start};
  }
  bool draws_messages() const { return sent_.size() <= kMostMessages; }

  // Under the cells: from the sender's row when the send begins to the receiver's when it is done.
  void messages() {
    if (!draws_messages()) return;
    for (size_t r = 0; r < t_.rows.size(); ++r)
      for (const TimelineSpan& s : t_.rows[r].spans) {
        if (is_compute(s) || is_send(s) || s.end > until_) continue;
        const auto [from, start] = sent_.at(s.flow);
        message(s.kind == SpanKind::recv_activation, from, start, r, s.end);
      }
  }

  // Activations go down and gradients up, side by side if at the same time; what goes the other way
  // wraps around from the last rank to the first or back, and is an end and a beginning.
  void message(bool activation, size_t from, double start, size_t to, double end) {
    const std::string_view style = activation ? "msg" : "msg grad";
    const double x1 = x(start) - nudge_, x2 = x(end) + nudge_;
    const double leaves = row_y(from) + (activation ? kCell : 0);
    const double enters = row_y(to) + (activation ? 0 : kCell);
    if (activation == (from < to)) return line(x1, leaves, x2, enters, style);
    const double stub = activation ? kStub : -kStub;
    line(x1, leaves, x1, leaves + stub, style);
    line(x2, enters - stub, x2, enters, style);
  }

  void bands(size_t r) {
    for (const SpanPhase phase : {SpanPhase::warm_up, SpanPhase::steady, SpanPhase::drain})
      band(t_.rows[r], phase, row_y(r) + kCell + 4);
  }

  void row(size_t r) {
    const TimelineRow& row = t_.rows[r];
    const double y = row_y(r);
    words(kMargin, y + kCell / 2 + 4, shortened(row.label));
    for (const TimelineSpan& s : row.spans)
      if (is_compute(s) && s.start < until_) cell(s, y);
    if (!t_.forward_only)
      words(x(until_) + 10, y + kCell / 2 + 4,
            fmt::format("peak {} activation{}", row.peak_activations,
                        row.peak_activations == 1 ? "" : "s"));
  }

  void cell(const TimelineSpan& s, double y) {
    const std::string text = label(s);
    const double begin = x(s.start), end = x(std::min(s.end, until_));
    body_ += fmt::format(
        "<g><title>{} stage {} microbatch {}, {}, {} to {} {}</title><rect class=\"{}{}\" x=\"{}\" "
        "y=\"{}\" width=\"{}\" height=\"{}\"/>",
        name(s.kind), s.stage, s.microbatch, name(s.phase), timeline_number(s.start),
        timeline_number(s.end), xml_escaped(t_.unit), s.kind == SpanKind::forward ? "F" : "B",
        s.chunk % 2 ? " odd" : "", px(begin), px(y), px(end - begin), px(kCell));
    if (static_cast<double>(text.size()) * kGlyph <= end - begin)
      body_ += fmt::format("<text class=\"cell\" x=\"{}\" y=\"{}\">{}</text>",
                           px((begin + end) / 2), px(y + kCell / 2 + 4), text);
    body_ += "</g>\n";
  }

  // From the first to the last computation of a phase.
  void band(const TimelineRow& row, SpanPhase phase, double y) {
    double begin = until_, end = 0;
    for (const TimelineSpan& s : row.spans) {
      if (!is_compute(s) || s.phase != phase) continue;
      begin = std::min(begin, s.start);
      end = std::max(end, std::min(s.end, until_));
    }
    if (begin < end) line(x(begin), y, x(end), y, name(phase));
  }

  void axis() {
    const double y = row_y(t_.rows.size()) + 2;
    line(x(0), y, x(until_), y, "rule");
    double step = std::pow(10, std::floor(std::log10(60 / scale_)));
    for (const double factor : {2.0, 2.5, 2.0})
      if (step * scale_ < 60) step *= factor;
    for (int i = 0; i * step <= until_; ++i) {
      line(x(i * step), y, x(i * step), y + 5, "rule");
      words(x(i * step) - 3, y + 18, timeline_number(i * step) + (i == 0 ? " " + t_.unit : ""));
    }
  }

  const Timeline& t_;
  double left_ = 0, top_ = 0, scale_ = 20, until_ = 0, width_ = 0;
  double nudge_ = 0;  // of activations to the left and of gradients to the right
  std::vector<std::string> heading_;
  std::map<int, std::pair<size_t, double>> sent_;  // by flow: row and beginning
  std::string body_;
};

}  // namespace

std::string timeline_svg(const Timeline& t) {
  return Drawing(t).text();
}

}  // namespace s2t
