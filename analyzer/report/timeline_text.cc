#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "analyzer/base/text.h"
#include "analyzer/base/unicode.h"
#include "analyzer/report/table.h"
#include "analyzer/report/timeline.h"

namespace s2t {
namespace {

size_t ix(long i) {
  return static_cast<size_t>(i);
}

// Columns of time: `per_unit` columns are one unit, so that the shortest computation holds its
// label. A rank with several chunks has a line per chunk.
struct Scale {
  size_t name_width = 0;
  double per_unit = 1;
  long width = 1;    // columns of one panel
  long columns = 0;  // of the whole timeline

  long column(double t) const { return std::lround(t * per_unit); }
};

std::string grid_label(const TimelineSpan& s) {
  return (s.kind == SpanKind::forward ? "F" : "B") + std::to_string(s.microbatch);
}

std::string line_name(const Timeline& t, const TimelineRow& row, int chunk) {
  const std::string label = one_line(row.label);
  return t.chunks == 1 ? label : fmt::format("{} chunk {}", label, chunk);
}

Scale scale_of(const Timeline& t, const TimelineTextLimits& limits) {
  Scale scale;
  double shortest = 0;
  size_t label_width = 1;
  for (const TimelineRow& row : t.rows) {
    scale.name_width = std::max(scale.name_width, display_width(line_name(t, row, t.chunks - 1)));
    for (const TimelineSpan& s : row.spans) {
      if (!is_compute(s)) continue;
      label_width = std::max(label_width, grid_label(s).size());
      const double d = s.end - s.start;
      if (d > 0 && (shortest == 0 || d < shortest)) shortest = d;
    }
  }
  scale.name_width = std::min(scale.name_width, ix(24));
  scale.width = std::max(16L, long{limits.columns} - static_cast<long>(scale.name_width) - 2);
  if (shortest > 0) scale.per_unit = static_cast<double>(label_width) / shortest;
  // Costs that differ by more than the terminal holds: let short cells lose their label instead.
  const double all = t.makespan * scale.per_unit;
  const double most = 1e6;
  if (all > most) scale.per_unit *= most / all;
  scale.columns = std::max(1L, scale.column(t.makespan));
  return scale;
}

// The name cut to its column, padded.
std::string padded(const std::string& text, size_t width) {
  std::string out;
  for (const char c : text) {
    const bool starts = (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (starts && display_width(out) >= width) break;
    out += c;
  }
  return out + std::string(width - std::min(width, display_width(out)), ' ');
}

std::string cells(const TimelineRow& row, int chunk, const Scale& scale, long from, long to) {
  std::string line(ix(to - from), '.');
  for (const TimelineSpan& s : row.spans) {
    if (!is_compute(s) || s.chunk != chunk) continue;
    const long begin = scale.column(s.start), end = scale.column(s.end);
    const std::string text = grid_label(s);
    for (long c = std::max(begin, from); c < std::min(end, to); ++c) {
      const bool labelled = c - begin < static_cast<long>(text.size());
      line[ix(c - from)] = labelled ? text[ix(c - begin)] : s.kind == SpanKind::forward ? '-' : '=';
    }
  }
  return line;
}

// Times above the columns, about one every ten columns, at round numbers.
std::string ruler(const Scale& scale, long from, long to) {
  double step = std::pow(10, std::floor(std::log10(10 / scale.per_unit)));
  for (const double factor : {2.0, 2.5, 2.0})
    if (step * scale.per_unit < 10) step *= factor;
  std::string line(ix(to - from), ' ');
  for (double t = std::ceil(static_cast<double>(from) / scale.per_unit / step) * step;; t += step) {
    const long at = scale.column(t) - from;
    const std::string text = timeline_number(t);
    if (at + static_cast<long>(text.size()) > to - from) break;
    if (at >= 0) line.replace(ix(at), text.size(), text);
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

std::string grid(const Timeline& t, const TimelineTextLimits& limits) {
  const Scale scale = scale_of(t, limits);
  const long shown_ranks = std::min<long>(limits.ranks, static_cast<long>(t.rows.size()));
  std::string text;
  long from = 0;
  for (int panel = 0; panel < limits.panels && from < scale.columns; ++panel) {
    const long to = std::min(scale.columns, from + scale.width);
    text += padded("time", scale.name_width) + "  " + ruler(scale, from, to) + "\n";
    for (long r = 0; r < shown_ranks; ++r)
      for (int c = 0; c < t.chunks; ++c)
        text += padded(line_name(t, t.rows[ix(r)], c), scale.name_width) + "  " +
                cells(t.rows[ix(r)], c, scale, from, to) + "\n";
    text += "\n";
    from = to;
  }
  if (from < scale.columns)
    text += fmt::format("(cut at {} of {} {}; the svg and chrome formats show all)\n\n",
                        timeline_number(static_cast<double>(from) / scale.per_unit),
                        timeline_number(t.makespan), t.unit);
  if (shown_ranks < static_cast<long>(t.rows.size()))
    text +=
        fmt::format("({} of {} ranks; the json format lists all)\n\n", shown_ranks, t.rows.size());
  return text;
}

std::string table(const Timeline& t, const TimelineTextLimits& limits) {
  size_t width = 4;
  for (const TimelineRow& row : t.rows) width = std::max(width, display_width(one_line(row.label)));
  width = std::min(width, ix(24));
  std::string text =
      fmt::format("{}  {:>8}  {:>7}  {:>16}  {:>9}  {:>9}\n", padded("rank", width), "messages",
                  "kernels", "peak activations", "busy " + t.unit, "idle " + t.unit);
  for (size_t r = 0; r < t.rows.size() && r < ix(limits.ranks); ++r) {
    const TimelineRow& row = t.rows[r];
    text += fmt::format(
        "{}  {:>8}  {:>7}  {:>16}  {:>9}  {:>9}\n", padded(one_line(row.label), width),
        commas(static_cast<uint64_t>(row.messages)), commas(static_cast<uint64_t>(row.kernels)),
        commas(static_cast<uint64_t>(row.peak_activations)), timeline_number(row.busy),
        timeline_number(t.makespan - row.busy));
  }
  return text;
}

// "[sf|rb]": the spans from `at` that were launched together; `at` moves past them.
std::string launch(const std::vector<TimelineSpan>& spans, size_t& at) {
  std::string text = label(spans[at], true);
  const int batch = spans[at].batch;
  bool several = false;
  for (++at; at < spans.size() && batch >= 0 && spans[at].batch == batch; ++at) {
    text += "|" + label(spans[at], true);
    several = true;
  }
  return several ? "[" + text + "]" : text;
}

// One phase of a rank, wrapped; "... and 12 more" when it is longer than the limit.
std::string phase_lines(const TimelineRow& row, SpanPhase phase, const TimelineTextLimits& limits) {
  const std::string indent(10, ' ');
  std::string text, line = fmt::format("  {:<8}", name(phase));
  int lines = 1;
  size_t left_out = 0;
  for (size_t i = 0; i < row.spans.size();) {
    if (row.spans[i].phase != phase) {
      ++i;
      continue;
    }
    const std::string unit = " " + launch(row.spans, i);
    const size_t room = ix(limits.columns) - (lines == limits.order_lines ? 18 : 0);
    if (left_out > 0 || (line.size() + unit.size() > room && lines == limits.order_lines)) {
      ++left_out;
      continue;
    }
    if (line.size() + unit.size() > room) {
      text += line + "\n";
      line = indent;
      ++lines;
    }
    line += unit;
  }
  if (line.size() <= indent.size() && lines == 1) return "";
  if (left_out > 0) line += fmt::format(" .. {} more", commas(left_out));
  return text + line + "\n";
}

std::string orders(const Timeline& t, const TimelineTextLimits& limits) {
  std::string text;
  for (size_t r = 0; r < t.rows.size() && r < ix(limits.ranks); ++r) {
    text += shortened(one_line(t.rows[r].label), ix(limits.columns)) + "\n";
    for (const SpanPhase phase : {SpanPhase::warm_up, SpanPhase::steady, SpanPhase::drain})
      text += phase_lines(t.rows[r], phase, limits);
  }
  return text;
}

}  // namespace

std::string timeline_number(double x) {
  std::string text = fmt::format("{:.3f}", x);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string timeline_summary(const Timeline& t) {
  const auto counted = [](int n, std::string_view one, std::string_view more) {
    return fmt::format("{} {}, ", n, n == 1 ? one : more);
  };
  std::string text = t.schedule + ": ";
  text += t.ranks == 1 ? "each rank alone, " : counted(t.ranks, "pipeline rank", "pipeline ranks");
  if (t.chunks > 1) text += fmt::format("{} chunks per rank, ", t.chunks);
  text += counted(t.microbatches, "microbatch", "microbatches");
  if (t.forward_only) text += "forward only, ";
  text.replace(text.size() - 2, 2, "; ");
  text += fmt::format("makespan {} {}, ideal {} {}; ", timeline_number(t.makespan), t.unit,
                      timeline_number(t.ideal), t.unit);
  return text + fmt::format("bubble {:.1f} % of the ideal, {:.1f} % of the makespan",
                            100 * t.bubble(), 100 * t.bubble_share());
}

std::string timeline_text(const Timeline& t, const TimelineTextLimits& limits) {
  std::string text = t.title.empty() ? "" : shortened(one_line(t.title), ix(limits.columns)) + "\n";
  const std::string summary = timeline_summary(t);
  const size_t split = summary.find("; ");
  text += summary.substr(0, split) + "\n" + summary.substr(split + 2) + "\n";
  text +=
      fmt::format("forward {}, backward {}, message {} {}{}\n\n", timeline_number(t.forward_cost),
                  timeline_number(t.backward_cost), timeline_number(t.p2p_cost), t.unit,
                  t.unit == "F" ? "; 1 F: the forward of one microbatch on one rank" : "");
  text += grid(t, limits);
  text += table(t, limits);
  text += "\norder: F forward, B backward, s send, r recv, f activation, b gradient; [..] together";
  text += t.chunks > 1 ? "\n       F3.1 microbatch 3 of chunk 1\n" : "\n";
  return text + orders(t, limits);
}

}  // namespace s2t
