#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "analyzer/base/unicode.h"
#include "analyzer/report/json_writer.h"
#include "analyzer/report/timeline.h"

namespace s2t {
namespace {

// A JSON string with its quotes and, since old versions of Perfetto read no "\uXXXX", without such.
std::string name_string(const std::string& text) {
  return json_string(one_line(text));
}

double to_nanos(double micros) {
  return std::round(micros * 1e3) / 1e3;
}

// Microseconds of the trace: one unit is a millisecond. On a grid of nanoseconds.
double micros(double t) {
  return to_nanos(t * 1e3);
}

constexpr double kNoCost = 1;  // us: a slice of no length could not hold the end of an arrow

// Of a rank's process: one for computing, then one per kind of message, on which slices never
// overlap because the messages of one kind go to one peer, one after the other.
constexpr SpanKind kThreads[] = {SpanKind::forward, SpanKind::send_activation,
                                 SpanKind::recv_activation, SpanKind::send_gradient,
                                 SpanKind::recv_gradient};

bool moves_activation(const TimelineSpan& s) {
  return s.kind == SpanKind::send_activation || s.kind == SpanKind::recv_activation;
}

// Metadata, then everything else by time. Events are written as text: a step has hundreds of
// thousands, and only labels need escaping.
class ChromeTrace {
 public:
  explicit ChromeTrace(const Timeline& t) : ranks_(static_cast<int>(t.rows.size())) {
    out_ = fmt::format(
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"title\":{},\"summary\":{},\"unit\":{}}},"
        "\"traceEvents\":[",
        name_string(t.title), name_string(timeline_summary(t)), name_string(t.unit));
    for (const TimelineRow& row : t.rows) {
      describe(row);
      last_end_.fill(0);
      for (const TimelineSpan& s : row.spans) slice(row, s);
      if (!t.forward_only) count_activations(row);
    }
    std::stable_sort(timed_.begin(), timed_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [at, text] : timed_) out_ += ",\n" + text;
    out_ += "\n]}\n";
  }

  std::string take() { return std::move(out_); }

 private:
  // Perfetto keeps process and thread 0 for itself, and looks threads up by number alone: numbers
  // start at 1 and no two processes share one. Computing is the main thread, which has its
  // process' number.
  static int process(const TimelineRow& row) { return row.rank + 1; }
  int thread(const TimelineRow& row, SpanKind kind) const {
    const int n = kind == SpanKind::backward ? 0 : static_cast<int>(kind);
    return process(row) + n * ranks_;
  }

  template <class... Args>
  void at(double ts, fmt::format_string<Args...> form, Args&&... args) {
    timed_.emplace_back(ts, fmt::format("{{\"ts\":{},", timeline_number(ts)) +
                                fmt::format(form, std::forward<Args>(args)...) + "}");
  }

  void metadata(const TimelineRow& row, int thread, const char* what, const std::string& value) {
    out_ += fmt::format("{}{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"args\":{{{}}}}}",
                        first_ ? "\n" : ",\n", process(row), thread, what, value);
    first_ = false;
  }

  void describe(const TimelineRow& row) {
    metadata(row, process(row), "process_name", "\"name\":" + name_string(row.label));
    metadata(row, process(row), "process_sort_index", "\"sort_index\":" + std::to_string(row.rank));
    for (const SpanKind kind : kThreads) {
      const std::string text(kind == SpanKind::forward ? "compute" : name(kind));
      metadata(row, thread(row, kind), "thread_name", "\"name\":\"" + text + "\"");
      metadata(row, thread(row, kind), "thread_sort_index",
               "\"sort_index\":" + std::to_string(static_cast<int>(kind)));
    }
  }

  void slice(const TimelineRow& row, const TimelineSpan& s) {
    double start = micros(s.start), length = to_nanos(micros(s.end) - start);
    if (!is_compute(s)) {
      double& last = last_end_[static_cast<size_t>(s.kind)];
      start = std::max(start, last);  // after another of no cost, at the same time
      if (length <= 0) length = kNoCost;
      last = to_nanos(start + length);
    }
    const std::string message =
        is_compute(s) ? "" : fmt::format(",\"peer\":{},\"batch\":{}", s.peer, s.batch);
    at(start,
       "\"ph\":\"X\",\"pid\":{},\"tid\":{},\"dur\":{},\"name\":\"{}\",\"cat\":\"{}\","
       "\"args\":{{\"stage\":{},\"chunk\":{},\"microbatch\":{},\"phase\":\"{}\"{}}}",
       process(row), thread(row, s.kind), timeline_number(length), label(s), name(s.kind), s.stage,
       s.chunk, s.microbatch, name(s.phase), message);
    if (!is_compute(s)) arrow(row, s, is_send(s) ? start : to_nanos(start + length / 2));
  }

  // From the beginning of the send to the middle of the receive, which "e" says encloses it.
  void arrow(const TimelineRow& row, const TimelineSpan& s, double ts) {
    at(ts, "\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"id\":{},\"name\":\"{}\",\"cat\":\"p2p\"{}",
       is_send(s) ? "s" : "f", process(row), thread(row, s.kind), s.flow,
       moves_activation(s) ? "activation" : "gradient", is_send(s) ? "" : ",\"bp\":\"e\"");
  }

  void count_activations(const TimelineRow& row) {
    int held = 0;
    for (const TimelineSpan& s : row.spans) {
      if (!is_compute(s)) continue;
      const bool forward = s.kind == SpanKind::forward;
      held += forward ? 1 : -1;
      at(micros(forward ? s.start : s.end),
         "\"ph\":\"C\",\"pid\":{},\"tid\":{},\"name\":\"activations\","
         "\"args\":{{\"held\":{}}}",
         process(row), process(row), held);
    }
  }

  int ranks_;
  std::string out_;
  bool first_ = true;
  std::array<double, 6> last_end_{};  // by kind of message, of one rank
  std::vector<std::pair<double, std::string>> timed_;
};

}  // namespace

std::string timeline_chrome(const Timeline& t) {
  return ChromeTrace(t).take();
}

}  // namespace s2t
