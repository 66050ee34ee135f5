// `explain`: everything that was recorded when an event was decided on, or pruned.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/base/text.h"
#include "analyzer/program/listing.h"
#include "analyzer/program/tally.h"
#include "analyzer/report/byte_formula.h"
#include "analyzer/report/program_json.h"
#include "analyzer/report/report.h"
#include "analyzer/report/table.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

struct Subject {
  Event event;
  const Pruned* pruned = nullptr;
};

std::optional<int64_t> parse_id(const std::string& text) {
  const bool digits =
      !text.empty() && text.size() < 19 &&
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? std::optional<int64_t>(std::stoll(text)) : std::nullopt;
}

// Whoever names a tensor gets the ids of its events.
std::string advice(const Program& program, const std::string& word) {
  std::vector<int64_t> ids;
  std::vector<std::string> pruned;
  for_each_event(program, [&](const Event& e) {
    if (e.tensor == word || e.node == word) ids.push_back(e.id);
  });
  for (const Pruned& p : program.pruned) pruned.push_back(p.id);
  if (!ids.empty())
    return fmt::format("{} is in events {}.", quoted(word), shortened(ranges(ids), 60));
  return did_you_mean(word, pruned);
}

// "0 to 3", or just "0".
std::string from_to(const std::string& first, const std::string& last) {
  return first == last ? first : first + " to " + last;
}

[[noreturn]] void unknown_event(const Program& program, const std::string& word) {
  const Count events = count_events(program);
  std::string expected =
      events == 0 ? "none, for the step has no events" : from_to("0", std::to_string(events - 1));
  if (!program.pruned.empty())
    expected +=
        ", or of those pruned " + from_to(program.pruned.front().id, program.pruned.back().id);
  throw UserError("shape2trace", {{"explain", "no event " + quoted(word), expected,
                                   advice(program, word), "unknown-event"}});
}

Subject find(const Program& program, const std::string& word) {
  for (const Pruned& p : program.pruned)
    if (p.id == word) {
      Subject subject{p.event, &p};
      place(program, subject.event);
      return subject;
    }
  std::optional<Event> found;
  if (const auto id = parse_id(word))
    for_each_event(program, [&](const Event& e) {
      if (e.id == *id) found = e;
    });
  if (!found) unknown_event(program, word);
  return {*found, nullptr};
}

// What is recorded, as rows of a name and a text; empty ones say nothing.
using Facts = std::vector<std::pair<std::string, std::string>>;

Facts cause_facts(const Cause& cause) {
  const std::string layouts =
      cause.from.empty() && cause.to.empty() ? "" : cause.from + "  ->  " + cause.to;
  return {{"cause", std::string(to_string(cause.kind))},
          {"why", cause.why},
          {"producer", cause.producer},
          {"consumer", cause.consumer},
          {"rule", cause.rule},
          {"mode", cause.vote},
          {"layout", layouts},
          {"step", cause.planner}};
}

std::string groups_text(const Program& program, const Event& event) {
  const Family& family = program.families.at(event.family);
  const auto count = static_cast<Count>(program.mesh.group_count(family));
  std::string text = fmt::format("{} group{} of {}", commas(count), count == 1 ? "" : "s",
                                 program.mesh.group_size(family));
  if (program.mesh.world() > kExplicitRanks)
    return text + ", the first " + rank_list(first_group(program.mesh, family), 8);
  text += ":";
  for (const auto& group : program.mesh.groups(family)) text += " " + rank_list(group, 64);
  return text;
}

std::string where(const Event& event) {
  std::string text(to_string(event.phase));
  if (event.stage) text += fmt::format(", stage {}", *event.stage);
  if (event.chunk && *event.chunk > 0) text += fmt::format(" chunk {}", *event.chunk);
  if (event.microbatch) text += fmt::format(", microbatch {}", *event.microbatch);
  return text;
}

std::string peer_text(const Program& program, const Event& event) {
  if (event.peer) return fmt::format("rank {}", event.peer->value);
  if (event.peer_offset)
    return fmt::format("{:+} along {}", *event.peer_offset,
                       event.ring ? program.families.at(event.family).name : "the pipeline");
  return "";
}

std::string rows_text(const std::vector<Count>& rows) {
  std::string text;
  for (const Count r : rows) text += (text.empty() ? "[" : ", ") + commas(r);
  return text + "]";
}

Facts event_facts(const Program& program, const Event& event) {
  const bool reduces = event.op == Collective::all_reduce ||
                       event.op == Collective::reduce_scatter || event.op == Collective::reduce;
  Facts facts{
      {"phase", where(event)},
      {"group", program.families.at(event.family).name + ", " + groups_text(program, event)},
      {"ranks", words(event.ranks, program.mesh)},
      {"peer", peer_text(program, event)},
      {"combines by", reduces ? (event.combiner == Combiner::sum   ? "sum"
                                 : event.combiner == Combiner::max ? "max"
                                                                   : "min")
                              : ""},
      {"tensor", fmt::format("{}, {} {} on each rank", event.tensor, info(event.dtype).name,
                             words(event.shape))},
      {"op", event.node},
      {"module", event.module},
      {"members", event.members.size() > 1 ? join(event.members, ", ") : ""}};
  if (event.splits) {
    facts.push_back({"rows sent", rows_text(event.splits->send)});
    facts.push_back({"rows received", rows_text(event.splits->recv)});
  }
  return facts;
}

void print_facts(const Facts& facts, std::ostream& out) {
  for (const auto& [name, text] : facts) {
    if (text.empty()) continue;
    std::string lead = fmt::format("  {:<14}", name);
    for (const std::string& line : wrapped(one_line(text), kPageWidth - lead.size())) {
      out << lead << line << "\n";
      lead.assign(lead.size(), ' ');
    }
  }
}

void print_bytes(const Program& program, const Event& event, std::ostream& out, bool color) {
  const int64_t n = program.mesh.group_size(program.families.at(event.family));
  out << "\n"
      << bold("Bytes", color)
      << fmt::format(" (one rank, one call; n = {}, S = the whole tensor)\n", n);
  for (const ByteLine& line : byte_lines(program, event))
    out << fmt::format("  {:<6} = {}{} = {} B\n", line.what, line.formula,
                       line.numbers.empty() ? "" : " = " + line.numbers, commas(line.bytes));
  out << fmt::format("\n  The count argument of the call is {} elements.\n",
                     commas(event.volume.elements));
}

void write_cause(JsonWriter& json, const Cause& c) {
  json.key("cause").object(JsonWriter::kLines).field("rule", to_string(c.kind));
  json.field("why", c.why).field("producer", c.producer).field("consumer", c.consumer);
  json.field("index_rule", c.rule).field("vote", c.vote).field("from", c.from).field("to", c.to);
  json.field("planner", c.planner).end();
}

}  // namespace

void write_explain_text(const Program& program, const ReportOptions& options, std::ostream& out) {
  const Subject subject = find(program, options.event);
  const Event& event = subject.event;
  const std::string title = subject.pruned ? fmt::format("{} was pruned", subject.pruned->id)
                                           : fmt::format("Event {}", event.id);
  out << bold(title, options.color) << ": " << info(event.op).name << " of "
      << one_line(event.tensor) << " over " << program.families.at(event.family).name << " ("
      << one_line(program.model) << ")\n\n";
  if (subject.pruned) print_facts({{"pruned", subject.pruned->because}}, out);
  print_facts(cause_facts(program.causes.at(event.cause)), out);
  out << "\n";
  print_facts(event_facts(program, event), out);
  print_bytes(program, event, out, options.color);
}

void write_explain_json(const Program& program, const ReportOptions& options, std::ostream& out) {
  const Subject subject = find(program, options.event);
  JsonWriter json(out);
  json.object(JsonWriter::kLines).field("schema", "shape2trace.explain/1");
  json.field("model", program.model);
  if (subject.pruned) {
    json.key("pruned");
    write_pruned(json, program, *subject.pruned);
  } else {
    json.key("event");
    write_event(json, program, subject.event);
  }
  write_cause(json, program.causes.at(subject.event.cause));
  json.key("bytes").array(JsonWriter::kLines);
  for (const ByteLine& line : byte_lines(program, subject.event))
    json.object()
        .field("what", line.what)
        .field("formula", line.formula)
        .field("numbers", line.numbers)
        .field("bytes", line.bytes)
        .end();
  json.end().end();
}

}  // namespace s2t
