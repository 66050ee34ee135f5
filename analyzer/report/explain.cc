// `explain`: everything that was recorded when an event was decided on, or pruned.
#include <fmt/format.h>

#include "analyzer/base/text.h"
#include "analyzer/base/unicode.h"
#include "analyzer/program/listing.h"
#include "analyzer/report/answer.h"
#include "analyzer/report/byte_formula.h"
#include "analyzer/report/explain_many.h"
#include "analyzer/report/program_json.h"
#include "analyzer/report/report.h"
#include "analyzer/report/table.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

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
  if (event.repeat > 1) text += fmt::format(", {} times per step", event.repeat);
  return text;
}

std::string peer_text(const Program& program, const Event& event) {
  if (event.peer) return fmt::format("rank {}", event.peer->value);
  const bool in_group = event.ring || event.op == Collective::all_to_all;
  if (event.peer_offset)
    return fmt::format("{:+} along {}", *event.peer_offset,
                       in_group ? program.families.at(event.family).name : "the pipeline");
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

// The same of other ranks, if words were answered by one collective.
std::string others_text(const Answer& found) {
  std::vector<int64_t> ids;
  for (const Event& e : found.events)
    if (e.id != found.only->id) ids.push_back(e.id);
  return ids.empty() ? "" : ranges(ids) + " are the same of other ranks";
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

void print_one(const Program& program, const Event& event, const Pruned* pruned,
               const Answer& found, bool color, std::ostream& out) {
  const std::string title =
      pruned ? fmt::format("{} was pruned", pruned->id) : fmt::format("Event {}", event.id);
  out << bold(title, color) << ": " << info(event.op).name << " of " << one_line(event.tensor)
      << " over " << program.families.at(event.family).name << " (" << one_line(program.model)
      << ")\n\n";
  if (pruned) print_facts({{"pruned", pruned->because}}, out);
  print_facts(cause_facts(program.causes.at(event.cause)), out);
  out << "\n";
  print_facts(event_facts(program, event), out);
  print_facts({{"other events", others_text(found)}}, out);
  print_bytes(program, event, out, color);
}

void write_one(JsonWriter& json, const Program& program, const Event& event, const Pruned* pruned) {
  if (pruned) {
    json.key("pruned");
    write_pruned(json, program, *pruned);
  } else {
    json.key("event");
    write_event(json, program, event);
  }
  write_cause(json, program.causes.at(event.cause));
  json.key("bytes").array(JsonWriter::kLines);
  for (const ByteLine& line : byte_lines(program, event))
    json.object()
        .field("what", line.what)
        .field("formula", line.formula)
        .field("numbers", line.numbers)
        .field("bytes", line.bytes)
        .end();
  json.end();
}

}  // namespace

void write_explain_text(const Program& program, const ReportOptions& options, std::ostream& out) {
  const Answer found = answer(program, options.words);
  if (found.only)
    print_one(program, *found.only, found.pruned.empty() ? nullptr : found.pruned.front(), found,
              options.color, out);
  else
    print_answer(program, options, found, out);
  print_effects(effects(program, found, options.other_settings), options.color, out);
}

void write_explain_json(const Program& program, const ReportOptions& options, std::ostream& out) {
  const Answer found = answer(program, options.words);
  JsonWriter json(out);
  json.object(JsonWriter::kLines).field("schema", "shape2trace.explain/1");
  json.field("model", program.model);
  if (found.only)
    write_one(json, program, *found.only, found.pruned.empty() ? nullptr : found.pruned.front());
  else
    write_answer(json, program, found);
  write_effects(json, effects(program, found, options.other_settings));
  json.end();
}

}  // namespace s2t
