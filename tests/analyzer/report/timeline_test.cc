// Pictures of timelines: golden files, and what must hold for every one of them.
#include "analyzer/report/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "analyzer/base/text.h"
#include "analyzer/report/xml.h"
#include "analyzer/schedule/simulate.h"
#include "tests/golden/golden.h"

namespace s2t {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;
using testing::expect_golden;

Timeline timeline(const char* schedule, int p, int m, int v = 1, const Costs& costs = {}) {
  PipelinePlan plan;
  plan.schedule = schedule;
  plan.ranks = p;
  plan.microbatches = m;
  plan.chunks = v;
  if (v > 1) plan.batching = Batching::overlapped;
  if (plan.schedule == "deepspeed") plan.batching = Batching::single;
  return simulate(plan, costs);
}

std::vector<Timeline> samples() {
  return {timeline("1f1b", 4, 8),           timeline("gpipe", 2, 3, 1, {1.5, 3.25, 0.125, "ms"}),
          timeline("interleaved", 4, 8, 2), timeline("interleaved", 3, 6, 3, {1, 2, 0.2, "F"}),
          timeline("deepspeed", 3, 4),      timeline("1f1b", 1, 2),
          timeline("1f1b", 16, 20)};
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// The stack of open elements closes, every attribute is quoted, every & starts an entity.
std::string xml_fault(const std::string& text) {
  static const std::regex tag(
      R"(^<(/?)([A-Za-z][\w:-]*)((?:\s+[A-Za-z_:][\w:.-]*="[^"<]*")*)\s*(/?)>)");
  static const std::regex bare_ampersand(R"(&(?!(?:amp|lt|gt|quot|#39);))");
  if (std::regex_search(text, bare_ampersand)) return "bare &";
  std::vector<std::string> open;
  int roots = 0;
  for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    std::smatch m;
    const std::string piece = text.substr(at, std::min<size_t>(text.find('>', at) - at + 1, 4096));
    if (!std::regex_search(piece, m, tag)) return "no tag: " + piece.substr(0, 80);
    if (m[1].length() > 0) {
      if (open.empty() || open.back() != m[2]) return "closes " + m[2].str();
      open.pop_back();
    } else if (m[4].length() == 0) {
      roots += open.empty();
      open.push_back(m[2]);
    }
  }
  return open.empty() && roots == 1 ? "" : "not one closed root";
}

TEST(TimelineGolden, TextJsonChromeAndSvgOfASmallPipeline) {
  Timeline t = timeline("1f1b", 2, 3);
  t.title = "pp_small";
  expect_golden("timeline/1f1b_p2_m3.txt", timeline_text(t));
  expect_golden("timeline/1f1b_p2_m3.json", timeline_json(t));
  expect_golden("timeline/1f1b_p2_m3.chrome.json", timeline_chrome(t));
  expect_golden("timeline/1f1b_p2_m3.svg", timeline_svg(t));
}

TEST(TimelineGolden, TextOfFourStagesAndOfInterleaving) {
  expect_golden("timeline/1f1b_p4_m8.txt", timeline_text(timeline("1f1b", 4, 8)));
  expect_golden("timeline/gpipe_p4_m8.txt", timeline_text(timeline("gpipe", 4, 8)));
  expect_golden("timeline/interleaved_p4_m8_v2.txt",
                timeline_text(timeline("interleaved", 4, 8, 2)));
}

TEST(TimelineText, StaysWithinTheColumns) {
  for (Timeline t : samples()) {
    t.title = std::string(300, 'x');
    t.rows[0].label = std::string(200, 'y');
    for (const int columns : {90, 100, 140})
      for (const std::string& line : lines(timeline_text(t, {columns, 3, 32, 4})))
        EXPECT_LE(display_width(line), static_cast<size_t>(columns)) << line;
  }
}

TEST(TimelineText, WritesOutWhatWouldEndALine) {
  Timeline t = timeline("1f1b", 2, 2);
  t.title = "a\nb";
  t.rows[0].label = "pp\n0";
  const std::string text = timeline_text(t);
  EXPECT_THAT(text, HasSubstr("a\\nb\n"));
  EXPECT_THAT(text, HasSubstr("\npp\\n0  "));
}

TEST(TimelineText, SaysWhatItLeavesOut) {
  const std::string text = timeline_text(timeline("1f1b", 16, 128), {100, 2, 4, 2});
  EXPECT_THAT(text, HasSubstr("(cut at "));
  EXPECT_THAT(text, HasSubstr(" of 429 F; the svg and chrome formats show all)"));
  EXPECT_THAT(text, HasSubstr("(4 of 16 ranks; the json format lists all)"));
  EXPECT_THAT(text, ::testing::ContainsRegex(" \\.\\. [0-9]+ more\n"));
  EXPECT_THAT(timeline_text(timeline("1f1b", 4, 8)), Not(HasSubstr("cut at")));
}

TEST(TimelineText, ShowsEveryComputationOfAShortStepOnce) {
  const std::vector<std::string> all = lines(timeline_text(timeline("1f1b", 4, 8)));
  for (int r = 0; r < 4; ++r) {
    const std::string& line = all[static_cast<size_t>(5 + r)];
    for (int i = 0; i < 8; ++i)
      for (const char* letter : {"F", "B"}) {
        const std::string cell = letter + std::to_string(i);
        EXPECT_EQ(line.find(cell), line.rfind(cell)) << line;
        EXPECT_NE(line.find(cell), std::string::npos) << cell << " in " << line;
      }
  }
}

TEST(TimelineJson, HoldsTheWholeTimeline) {
  for (const Timeline& t : samples()) {
    const Json json = Json::parse(timeline_json(t));
    EXPECT_EQ(json["schema"], "shape2trace.schedule/1");
    EXPECT_NEAR(json["makespan"].get<double>(), t.makespan, 1e-6);
    ASSERT_EQ(json["rows"].size(), t.rows.size());
    for (size_t r = 0; r < t.rows.size(); ++r) {
      const Json& actions = json["rows"][r]["actions"];
      ASSERT_EQ(actions.size(), t.rows[r].spans.size());
      for (size_t i = 0; i < actions.size(); ++i) {
        EXPECT_EQ(actions[i]["kind"], name(t.rows[r].spans[i].kind));
        EXPECT_EQ(actions[i]["microbatch"], t.rows[r].spans[i].microbatch);
        EXPECT_EQ(actions[i]["peer"].is_null(), is_compute(t.rows[r].spans[i]));
      }
    }
  }
}

using Track = std::pair<int, int>;  // pid, tid
struct Slice {
  double start, end;
};

struct ChromeEvents {
  std::map<Track, std::vector<Slice>> slices;
  std::map<int, std::vector<Json>> flows;  // by id
  std::set<int> processes;
};

// Also the schema check: every event has what its phase requires, and no other phase occurs.
ChromeEvents read_chrome(const std::string& text) {
  ChromeEvents out;
  const Json trace = Json::parse(text);
  for (const Json& e : trace.at("traceEvents")) {
    const std::string ph = e.at("ph");
    const Track track{e.at("pid").get<int>(), e.at("tid").get<int>()};
    EXPECT_FALSE(e.at("name").get<std::string>().empty());
    if (ph == "M") {
      if (e["name"] == "process_name") out.processes.insert(track.first);
      EXPECT_EQ(e.at("args").size(), 1u);
      continue;
    }
    const double ts = e.at("ts");
    EXPECT_GE(ts, 0);
    if (ph == "X")
      out.slices[track].push_back({ts, ts + e.at("dur").get<double>()});
    else if (ph == "s" || ph == "f")
      out.flows[e.at("id").get<int>()].push_back(e);
    else
      EXPECT_EQ(ph, "C");
  }
  return out;
}

bool inside_a_slice(const ChromeEvents& events, const Json& flow) {
  const auto& on_track = events.slices.at({flow["pid"].get<int>(), flow["tid"].get<int>()});
  const double ts = flow["ts"];
  return std::any_of(on_track.begin(), on_track.end(),
                     [&](const Slice& s) { return s.start <= ts && ts < s.end; });
}

TEST(TimelineChrome, EveryFlowLeavesASendAndEntersAReceive) {
  for (const Timeline& t : samples()) {
    const ChromeEvents events = read_chrome(timeline_chrome(t));
    size_t sends = 0;
    for (const TimelineRow& row : t.rows)
      sends += static_cast<size_t>(std::count_if(row.spans.begin(), row.spans.end(),
                                                 [](const TimelineSpan& s) { return is_send(s); }));
    EXPECT_EQ(events.flows.size(), sends);
    EXPECT_EQ(events.processes.size(), t.rows.size());
    for (const auto& [id, ends] : events.flows) {
      ASSERT_EQ(ends.size(), 2u) << id;
      const bool sorted = ends[0]["ph"] == "s";
      const Json &from = ends[sorted ? 0 : 1], &to = ends[sorted ? 1 : 0];
      EXPECT_EQ(from["ph"], "s");
      EXPECT_EQ(to["ph"], "f");
      EXPECT_EQ(from["name"], to["name"]);
      EXPECT_NE(from["pid"], to["pid"]);
      EXPECT_LT(from["ts"].get<double>(), to["ts"].get<double>());
      EXPECT_TRUE(inside_a_slice(events, from)) << from;
      EXPECT_TRUE(inside_a_slice(events, to)) << to;
    }
  }
}

TEST(TimelineChrome, SlicesOfOneThreadNestOrFollow) {
  for (const Timeline& t : samples()) {
    const ChromeEvents events = read_chrome(timeline_chrome(t));
    ASSERT_FALSE(events.slices.empty());
    for (auto [track, slices] : events.slices) {
      std::sort(slices.begin(), slices.end(),
                [](const Slice& a, const Slice& b) { return a.start < b.start; });
      for (size_t i = 1; i < slices.size(); ++i) {
        const bool follows = slices[i].start >= slices[i - 1].end - 1e-6;
        EXPECT_TRUE(follows || slices[i].end <= slices[i - 1].end)
            << track.first << "/" << track.second << " at " << slices[i].start;
      }
    }
  }
}

TEST(TimelineSvg, IsWellFormedAndHasACellForEveryComputation) {
  for (const Timeline& t : samples()) {
    const std::string svg = timeline_svg(t);
    EXPECT_EQ(xml_fault(svg), "");
    size_t computations = 0, cells = 0;
    for (const TimelineRow& row : t.rows)
      computations += static_cast<size_t>(std::count_if(
          row.spans.begin(), row.spans.end(), [](const TimelineSpan& s) { return is_compute(s); }));
    for (size_t at = svg.find("<rect"); at != std::string::npos; at = svg.find("<rect", at + 1))
      ++cells;
    EXPECT_EQ(cells, computations);
  }
}

TEST(TimelineSvg, KeepsEveryTextAndCellInsideThePicture) {
  for (Timeline t : samples()) {
    t.title = "a title that is somewhat longer than the picture of a single short stage";
    const std::string svg = timeline_svg(t);
    std::smatch size;
    ASSERT_TRUE(
        std::regex_search(svg, size, std::regex("width=\"([0-9.]+)\" height=\"([0-9.]+)\"")));
    const double width = std::stod(size[1]), height = std::stod(size[2]);
    static const std::regex text(
        "<text class=\"t\" x=\"([0-9.]+)\" y=\"([0-9.]+)\">([^<]*)</text>");
    for (std::sregex_iterator it(svg.begin(), svg.end(), text), end; it != end; ++it) {
      EXPECT_LE(std::stod((*it)[1]) + 7.0 * static_cast<double>((*it)[3].length()), width);
      EXPECT_LT(std::stod((*it)[2]), height);
    }
    static const std::regex rect("<rect [^>]*x=\"([0-9.]+)\"[^>]*width=\"([0-9.]+)\"");
    for (std::sregex_iterator it(svg.begin(), svg.end(), rect), end; it != end; ++it)
      EXPECT_LE(std::stod((*it)[1]) + std::stod((*it)[2]), width);
  }
}

TEST(TimelineSvg, CutsAnEndlessStepAndSaysSoBelowTheLegend) {
  const std::string svg = timeline_svg(timeline("1f1b", 16, 1024));
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_THAT(svg, HasSubstr("cut at "));
  EXPECT_THAT(svg, HasSubstr("line under a row: "));
  EXPECT_THAT(svg, HasSubstr("messages are too many to draw"));
  EXPECT_LT(svg.size(), 8u << 20);
}

size_t occurrences(const std::string& text, const std::string& of) {
  size_t n = 0;
  for (size_t at = text.find(of); at != std::string::npos; at = text.find(of, at + 1)) ++n;
  return n;
}

TEST(TimelineSvg, HasAnArrowForEveryMessageAndTwoForOneAroundTheEnds) {
  const std::string plain = timeline_svg(timeline("1f1b", 4, 8));
  EXPECT_EQ(occurrences(plain, "<line class=\"msg\""), 3u * 8);
  EXPECT_EQ(occurrences(plain, "<line class=\"msg grad\""), 3u * 8);
  const std::string chunks = timeline_svg(timeline("interleaved", 4, 8, 2));
  EXPECT_EQ(occurrences(chunks, "<line class=\"msg\""), (6u + 2u) * 8);
  EXPECT_EQ(occurrences(chunks, "<line class=\"msg grad\""), (6u + 2u) * 8);
}

TEST(TimelineSvg, SaysWhatLabelsShadesAndPeaksMean) {
  const std::string chunks = timeline_svg(timeline("interleaved", 4, 8, 2));
  EXPECT_THAT(chunks, HasSubstr("F3.1, B3.1: forward and backward of microbatch 3 in chunk 1; "
                                "light even chunks, dark odd ones"));
  EXPECT_THAT(chunks, HasSubstr("peak 11 activations"));
  EXPECT_THAT(timeline_svg(timeline("1f1b", 4, 8)), HasSubstr("peak 1 activation<"));
}

TEST(TimelineLabels, HostileTextComesOutEscaped) {
  Timeline t = timeline("1f1b", 2, 2);
  t.title = "a<b>&\"c\"'\n\x01 \u05e9\u05dc\u05d5\u05dd \xff";
  t.rows[0].label = "<script>";
  EXPECT_EQ(xml_fault(timeline_svg(t)), "");
  EXPECT_THAT(
      timeline_svg(t),
      HasSubstr(
          "a&lt;b&gt;&amp;&quot;c&quot;&#39;\\n\\u0001 <tspan unicode-bidi=\"isolate\">\u05e9"));
  EXPECT_THAT(timeline_svg(t), HasSubstr("&lt;script&gt;"));
  EXPECT_EQ(Json::parse(timeline_chrome(t))["traceEvents"][0]["args"]["name"], "<script>");
  EXPECT_THAT(Json::parse(timeline_json(t))["title"].get<std::string>(), HasSubstr("\u05e9"));
  EXPECT_EQ(lines(timeline_text(t))[0].find('\n'), std::string::npos);
}

TEST(Xml, EscapesReplacesAndKeeps) {
  EXPECT_EQ(xml_escaped("plain \u00e9 \U0001F600"), "plain \u00e9 \U0001F600");
  EXPECT_EQ(xml_escaped("<&>\"'"), "&lt;&amp;&gt;&quot;&#39;");
  EXPECT_EQ(xml_escaped(std::string("\0", 1)), "\\u0000");
  EXPECT_EQ(xml_escaped("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(xml_escaped("\xC3"), "\uFFFD");
  EXPECT_EQ(xml_escaped("a\tb\nc"), "a\\tb\\nc");
}

TEST(Xml, SetsLettersFromRightToLeftApart) {
  EXPECT_EQ(html_text("<\u05e9> 4 x 8"), "&lt;<bdi>\u05e9</bdi>&gt; 4 x 8");
  EXPECT_EQ(svg_text("\u05e9"), "<tspan unicode-bidi=\"isolate\">\u05e9</tspan>");
  EXPECT_EQ(html_text("\u202e"), "\\u202e");
}

TEST(TimelineNumber, HasAtMostThreeDecimalsAndNoTrailingZero) {
  EXPECT_EQ(timeline_number(33), "33");
  EXPECT_EQ(timeline_number(28.5), "28.5");
  EXPECT_EQ(timeline_number(1.0 / 3), "0.333");
  EXPECT_EQ(timeline_number(-0.0), "0");
  EXPECT_EQ(timeline_number(100), "100");
}

}  // namespace
}  // namespace s2t
