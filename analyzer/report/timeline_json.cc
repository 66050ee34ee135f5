#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "analyzer/report/timeline.h"

namespace s2t {
namespace {

using Json = nlohmann::ordered_json;

double rounded(double x) {
  return std::round(x * 1e6) / 1e6;
}

std::string known(int i) {
  return i < 0 ? "null" : std::to_string(i);
}

// Nothing here needs escaping, and a step has hundreds of thousands of actions: text, no objects.
void append(std::string& out, const TimelineSpan& s) {
  fmt::format_to(std::back_inserter(out),
                 "{{\"kind\":\"{}\",\"phase\":\"{}\",\"stage\":{},\"chunk\":{},\"microbatch\":{},"
                 "\"start\":{},\"end\":{},\"peer\":{},\"batch\":{},\"flow\":{}}}",
                 name(s.kind), name(s.phase), s.stage, s.chunk, s.microbatch, rounded(s.start),
                 rounded(s.end), known(s.peer), known(s.batch), known(s.flow));
}

Json row_head(const TimelineRow& row) {
  return {{"rank", row.rank},
          {"label", row.label},
          {"messages", row.messages},
          {"kernels", row.kernels},
          {"peak_activations", row.peak_activations},
          {"busy", rounded(row.busy)}};
}

Json head(const Timeline& t) {
  return {
      {"schema", "shape2trace.schedule/1"},
      {"title", t.title},
      {"schedule", t.schedule},
      {"ranks", t.ranks},
      {"chunks", t.chunks},
      {"microbatches", t.microbatches},
      {"forward_only", t.forward_only},
      {"unit", t.unit},
      {"costs", {{"forward", t.forward_cost}, {"backward", t.backward_cost}, {"p2p", t.p2p_cost}}},
      {"makespan", rounded(t.makespan)},
      {"ideal", rounded(t.ideal)},
      {"bubble", rounded(t.bubble())},
      {"bubble_share", rounded(t.bubble_share())}};
}

// Strings may hold bytes that are not UTF-8; they come out as U+FFFD, never as an exception. In
// ASCII, so that nothing turns the text.
std::string dump(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace

// One action per line: a long timeline stays greppable.
std::string timeline_json(const Timeline& t) {
  std::string out = dump(head(t));
  out.back() = ',';
  out += "\n\"rows\":[";
  for (size_t r = 0; r < t.rows.size(); ++r) {
    std::string row = dump(row_head(t.rows[r]));
    row.back() = ',';
    out += (r ? ",\n" : "\n") + row + "\"actions\":[";
    const auto& spans = t.rows[r].spans;
    for (size_t i = 0; i < spans.size(); ++i) {
      out += i ? ",\n  " : "\n  ";
      append(out, spans[i]);
    }
    out += "]}";
  }
  return out + "\n]}\n";
}

}  // namespace s2t
