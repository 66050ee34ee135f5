#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "analyzer/report/timeline.h"

namespace s2t {
namespace {

// A JSON string with its quotes. Bytes that are not UTF-8 come out as U+FFFD, never as an
// exception.
std::string json_string(const std::string& text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

double to_nanos(double micros) {
  return std::round(micros * 1e3) / 1e3;
}

// Microseconds of the trace: one unit is a millisecond. On a grid of nanoseconds.
double micros(double t) {
  return to_nanos(t * 1e3);
}

constexpr double kNoCost = 1;  // us: a slice of no length could not hold the end of an arrow

// Thread of a rank's process: computing, then one per kind of message, on which slices never
// overlap because the messages of one kind go to one peer, one after the other.
int thread_of(SpanKind kind) {
  return kind == SpanKind::backward ? 0 : static_cast<int>(kind);
}

bool moves_activation(const TimelineSpan& s) {
  return s.kind == SpanKind::send_activation || s.kind == SpanKind::recv_activation;
}

// Events are written as text: a step has hundreds of thousands, and only labels need escaping.
class ChromeTrace {
 public:
  explicit ChromeTrace(const Timeline& t) {
    out_ = fmt::format(
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"title\":{},\"summary\":{},\"unit\":{}}},"
        "\"traceEvents\":[",
        json_string(t.title), json_string(timeline_summary(t)), json_string(t.unit));
    for (const TimelineRow& row : t.rows) {
      describe(row);
      for (const TimelineSpan& s : row.spans) slice(row, s);
      if (!t.forward_only) count_activations(row);
    }
    out_ += "\n]}\n";
  }

  std::string take() { return std::move(out_); }

 private:
  template <class... Args>
  void event(fmt::format_string<Args...> form, Args&&... args) {
    out_ += first_ ? "\n{" : ",\n{";
    first_ = false;
    fmt::format_to(std::back_inserter(out_), form, std::forward<Args>(args)...);
    out_ += '}';
  }

  void metadata(const TimelineRow& row, int thread, const char* what, const std::string& value) {
    event("\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"args\":{{{}}}", row.rank, thread,
          what, value);
  }

  void describe(const TimelineRow& row) {
    metadata(row, 0, "process_name", "\"name\":" + json_string(row.label));
    metadata(row, 0, "process_sort_index", "\"sort_index\":" + std::to_string(row.rank));
    for (const SpanKind kind :
         {SpanKind::forward, SpanKind::send_activation, SpanKind::recv_activation,
          SpanKind::send_gradient, SpanKind::recv_gradient}) {
      const int thread = thread_of(kind);
      const std::string text(thread == 0 ? "compute" : name(kind));
      metadata(row, thread, "thread_name", "\"name\":\"" + text + "\"");
      metadata(row, thread, "thread_sort_index", "\"sort_index\":" + std::to_string(thread));
    }
  }

  void slice(const TimelineRow& row, const TimelineSpan& s) {
    const double start = micros(s.start);
    double length = to_nanos(micros(s.end) - start);
    if (!is_compute(s) && length <= 0) length = kNoCost;
    const std::string message =
        is_compute(s) ? "" : fmt::format(",\"peer\":{},\"batch\":{}", s.peer, s.batch);
    event(
        "\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":\"{}\",\"cat\":\"{}\","
        "\"args\":{{\"stage\":{},\"chunk\":{},\"microbatch\":{},\"phase\":\"{}\"{}}}",
        row.rank, thread_of(s.kind), start, length, label(s), name(s.kind), s.stage, s.chunk,
        s.microbatch, name(s.phase), message);
    if (!is_compute(s)) arrow(row, s, is_send(s) ? start : to_nanos(start + length / 2));
  }

  // From the beginning of the send to the middle of the receive.
  void arrow(const TimelineRow& row, const TimelineSpan& s, double at) {
    event(
        "\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{},\"id\":{},\"name\":\"{}\",\"cat\":\"p2p\"{}",
        is_send(s) ? "s" : "f", row.rank, thread_of(s.kind), at, s.flow,
        moves_activation(s) ? "activation" : "gradient", is_send(s) ? "" : ",\"bp\":\"e\"");
  }

  void count_activations(const TimelineRow& row) {
    int held = 0;
    for (const TimelineSpan& s : row.spans) {
      if (!is_compute(s)) continue;
      const bool forward = s.kind == SpanKind::forward;
      held += forward ? 1 : -1;
      event(
          "\"ph\":\"C\",\"pid\":{},\"tid\":0,\"ts\":{},\"name\":\"activations\","
          "\"args\":{{\"held\":{}}}",
          row.rank, micros(forward ? s.start : s.end), held);
    }
  }

  std::string out_;
  bool first_ = true;
};

}  // namespace

std::string timeline_chrome(const Timeline& t) {
  return ChromeTrace(t).take();
}

}  // namespace s2t
