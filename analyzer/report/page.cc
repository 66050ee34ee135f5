// `render --format html`: summary, groups, graph, events, pruned, one rank and timeline on one
// page.
#include "analyzer/report/page.h"

#include <fmt/format.h>

#include "analyzer/base/text.h"
#include "analyzer/program/tally.h"
#include "analyzer/report/diagram.h"
#include "analyzer/report/grid.h"
#include "analyzer/report/page_assets.h"
#include "analyzer/report/timeline.h"
#include "analyzer/report/words.h"
#include "analyzer/report/xml.h"

namespace s2t {
namespace {

struct Cell {
  std::string text;
  bool number = false;
};

std::string amount(Count n) {
  return commas(n);
}

std::string some(Count n, std::string_view of) {
  return fmt::format("{} {}{}", amount(n), of, n == 1 ? "" : "s");
}

std::string row(std::string_view tag, const std::vector<Cell>& cells) {
  std::string out = "<tr>";
  for (const Cell& c : cells)
    out += fmt::format("<{0}{1}>{2}</{0}>", tag, c.number ? " class=\"n\"" : "", html_text(c.text));
  return out + "</tr>\n";
}

// What may be wider than a small screen is scrolled by itself, with the keyboard too.
std::string scrolled(std::string_view what, const std::string& body) {
  return fmt::format(
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">{}</div>\n", what,
      body);
}

std::string table(const std::vector<Cell>& head, const std::vector<std::vector<Cell>>& rows) {
  std::string out = "<table><thead>" + row("th", head) + "</thead><tbody>\n";
  for (const auto& r : rows) out += row("td", r);
  return out + "</tbody></table>\n";
}

std::string section(std::string_view id, std::string_view title, const std::string& body) {
  return fmt::format("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", id, title, body);
}

// What the filters leave of a program.
struct Part {
  const Program& whole;
  const Filter filter;
  const Program program;  // without the events that are not wanted
  const bool each_event;

  Part(const Program& of, const ReportOptions& options)
      : whole(of),
        filter(of, options),
        program(filter.narrowed()),
        each_event(events() <= kMostPageEvents) {}
  Count events() const { return count_events(program, filter.selection()); }
  bool has(const Event& e) const { return filter.wants(e) && filter.issues(e); }
};

std::string summary(const Part& part) {
  const Program& program = part.program;
  std::vector<std::vector<Cell>> rows;
  for (const auto& [r, stages] : merge_stages(summarize(program, part.filter.selection())))
    rows.push_back({{std::string(to_string(r.phase))},
                    {std::string(info(r.op).name)},
                    {program.families[r.family].name},
                    {ranges(stages, program.pipeline_ranks)},
                    {std::string(info(r.dtype).name)},
                    {amount(r.calls), true},
                    {amount(r.input_bytes), true},
                    {amount(r.output_bytes), true},
                    {amount(r.wire_bytes), true}});
  std::string out = part.filter.selection().rank
                        ? "<p class=\"sub\">Of this rank, per step.</p>\n"
                        : "<p class=\"sub\">Per rank and step; of ranks that differ, the "
                          "busiest.</p>\n";
  out += rows.empty() ? "<p>No collective.</p>\n"
                      : scrolled("summary", table({{"phase"},
                                                   {"collective"},
                                                   {"group"},
                                                   {"stage"},
                                                   {"dtype"},
                                                   {"calls", true},
                                                   {"input B", true},
                                                   {"output B", true},
                                                   {"wire B", true}},
                                                  rows));
  if (program.remarks.empty()) return out;
  out += "<h3>Remarks</h3>\n<ul>\n";
  for (const Remark& r : program.remarks) out += "<li>" + html_text(r.text) + "</li>\n";
  return out + "</ul>\n";
}

std::string graph(const ReportOptions& options) {
  const size_t begin = options.graph_svg.find("<svg");
  if (begin == std::string::npos) return "<p>" + html_text(options.graph_missing) + "</p>\n";
  return fmt::format(
      "<p class=\"sub\">Drag or use the arrow keys to move, wheel or + and - to zoom, 0 to "
      "fit.</p>\n"
      "<div class=\"controls\"><button class=\"plain\" id=\"zoom-in\">zoom in</button>"
      "<button class=\"plain\" id=\"zoom-out\">zoom out</button>"
      "<button class=\"plain\" id=\"zoom-fit\">fit</button></div>\n"
      "<div id=\"graph\" tabindex=\"0\" role=\"application\" aria-label=\"communication picture, "
      "arrow keys move, plus and minus zoom\">{}</div>\n",
      options.graph_svg.substr(begin));
}

// The bounds of a rank that may be asked for.
std::string rank_bounds(const Part& part) {
  const auto rank = part.filter.selection().rank;
  return fmt::format("min=\"{}\" max=\"{}\"", rank ? rank->value : 0,
                     rank ? rank->value : part.whole.mesh.world() - 1);
}

std::string events(const Part& part) {
  std::string note = part.each_event ? "One row per event, in order."
                                     : "What repeats is one row; \"times\" says how often it runs.";
  return fmt::format(
      "<p class=\"sub\">{}</p>\n<div class=\"controls\">"
      "<label>contains<input id=\"find\" type=\"search\"></label>"
      "<label>phase<select id=\"of-phase\"></select></label>"
      "<label>collective<select id=\"of-op\"></select></label>"
      "<label>group<select id=\"of-family\"></select></label>"
      "<label>of rank<input id=\"of-rank\" type=\"number\" {}></label>"
      "<span id=\"events-count\" role=\"status\"></span></div>\n"
      "<div class=\"scroll\" tabindex=\"0\" aria-label=\"events\"><table><thead><tr "
      "id=\"events-head\"></tr></thead><tbody id=\"events-body\"></tbody></table></div>\n"
      "<p><button class=\"plain\" id=\"more\">show more</button></p>\n",
      note, rank_bounds(part));
}

std::string pruned(const Part& part) {
  const Program& program = part.whole;
  std::vector<std::vector<Cell>> rows;
  for (const Pruned& p : program.pruned)
    if (part.has(p.event))
      rows.push_back({{p.id},
                      {std::string(to_string(p.event.phase))},
                      {std::string(info(p.event.op).name)},
                      {program.families[p.event.family].name},
                      {subject(p.event)},
                      {amount(p.event.volume.input_bytes), true},
                      {p.because}});
  if (rows.empty()) return "<p>Nothing is pruned.</p>\n";
  return scrolled("pruned", table({{"id"},
                                   {"phase"},
                                   {"collective"},
                                   {"group"},
                                   {"tensor"},
                                   {"saved B", true},
                                   {"because"}},
                                  rows));
}

std::string one_rank(const Part& part) {
  const auto rank = part.filter.selection().rank;
  return fmt::format(
      "<div class=\"controls\"><label>rank<input id=\"rank\" type=\"number\" {} "
      "value=\"{}\"></label><span id=\"rank-place\" role=\"status\"></span></div>\n"
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"groups of the rank\">"
      "<table><thead><tr><th>group</th><th class=\"n\">size</th><th>ranks</th></tr></thead><tbody "
      "id=\"rank-groups\"></tbody></table></div>\n"
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"calls of the rank\">"
      "<table><thead><tr><th>phase</th><th>collective</th><th>group</th><th "
      "class=\"n\">calls</th><th class=\"n\">input B</th><th class=\"n\">output B</th>"
      "<th class=\"n\">wire B</th></tr></thead>"
      "<tbody id=\"rank-calls\"></tbody></table></div>\n",
      rank_bounds(part), rank ? rank->value : 0);
}

std::string timeline(const Program& program) {
  if (!program.timeline) return "<p>The model has no pipeline.</p>\n";
  const Timeline named = named_timeline(program);
  return "<div class=\"scroll picture\" tabindex=\"0\" aria-label=\"timeline\">" +
         timeline_svg(named) + "</div>\n";
}

}  // namespace

void write_render_html(const Program& program, const ReportOptions& options, std::ostream& out) {
  const Part part(program, options);
  const std::string title = xml_escaped(program.model), shown = part.filter.words();
  out << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
         "<link rel=\"icon\" href=\"data:,\">\n"
      << "<title>" << title << "</title>\n<style>" << kPageStyle << "</style>\n</head>\n<body>\n";
  out << "<h1>" << html_text(program.model) << "</h1>\n<p class=\"sub\">"
      << html_text(world_text(program.mesh, drawn_axes(program.mesh, false))) << "; "
      << some(program.parameters, "parameter") << "; " << some(count_events(program), "event")
      << " in a step</p>\n";
  if (!shown.empty())
    out << "<p class=\"shown\" id=\"shown\">" << html_text(shown) << ": "
        << some(part.events(), "event") << "; groups and timeline are of the whole step</p>\n";
  out << "<nav aria-label=\"sections\"><a href=\"#summary\">Summary</a><a "
         "href=\"#groups\">Groups</a><a href=\"#communication\">Communication</a><a "
         "href=\"#events\">Events</a><a href=\"#pruned\">Pruned</a><a href=\"#one-rank\">One "
         "rank</a><a href=\"#timeline\">Timeline</a></nav>\n<main>\n";
  out << section("summary", "Summary", summary(part));
  out << section("groups", "Groups",
                 "<div class=\"scroll picture\" tabindex=\"0\" aria-label=\"groups\">" +
                     groups_svg(program, options) + "</div>\n");
  out << section("communication", "Communication", graph(options));
  out << section("events", "Events", events(part));
  out << section("pruned", "Pruned", pruned(part));
  out << section("one-rank", "One rank", one_rank(part));
  out << section("timeline", "Timeline", timeline(program));
  out << "</main>\n<script type=\"application/json\" id=\"data\">"
      << page_data(program, part.filter, part.each_event) << "</script>\n<script>" << kPageScript
      << "</script>\n</body>\n</html>\n";
}

}  // namespace s2t
