// What `verify` found, as text and as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analyzer/base/unicode.h"
#include "analyzer/cli/verification.h"
#include "analyzer/report/json_writer.h"

namespace s2t {
namespace {

// The cause, which most ranks only repeat, and what others have to add.
void write_failures(const std::vector<RankFailure>& failures, std::ostream& out) {
  std::vector<int32_t> stopped;
  for (const RankFailure& f : failures) {
    const bool first = &f == &failures.front();
    if (first || f.text != failures.front().text)
      out << fmt::format("rank {} {}: {}\n", f.rank.value, name_of(f.reason), one_line(f.text));
    else
      stopped.push_back(f.rank.value);
  }
  if (!stopped.empty())
    out << fmt::format("That stopped rank{} {} too.\n", stopped.size() == 1 ? "" : "s",
                       fmt::join(stopped, ", "));
}

}  // namespace

// --- text ----------------------------------------------------------------------------------------

void write_text(const Verification& v, std::ostream& out) {
  out << fmt::format("{} on {}", one_line(v.model), v.backend);
  if (!v.kernels.empty()) out << fmt::format(" ({} kernels)", v.kernels);
  out << "\n";
  if (v.stand_in)
    out << "These are stand-ins of CUDA, cuBLAS and NCCL on the CPU: no evidence about any GPU.\n";
  out << "\n";
  if (!v.failures.empty()) return write_failures(v.failures, out);
  out << fmt::format("  {:<16} {:<6} {:>11} {:>11}  {}\n", "check", "result", "figure", "allowed",
                     "what");
  for (const Check& c : v.checks)
    out << fmt::format("  {:<16} {:<6} {:>11.3g} {:>11.3g}  {}\n", c.name,
                       c.passed ? "ok" : "FAILED", c.figure, c.tolerance, one_line(c.text));
  for (const Heard& h : v.witnesses)
    if (!h.took_part)
      out << fmt::format("\n  Witness {} took no part: {}.\n", h.witness, one_line(h.why_not));
  if (!v.differences.empty()) out << "\n";
  for (const Difference& d : v.differences) out << "  " << one_line(d.text) << "\n";
  for (const auto& [witness, found] : v.disagreements) {
    if (!found.empty()) out << "\n";
    for (const Disagreement& d : found) out << "  " << one_line(d.text) << "\n";
  }
  out << fmt::format("\n{}\n", v.match()
                                   ? "Everything ran as predicted and computes what the unsharded "
                                     "model computes."
                                   : "The run and the prediction, or the numbers, disagree.");
}

// --- JSON ----------------------------------------------------------------------------------------

namespace {

void write(const Difference& d, JsonWriter& json) {
  json.object();
  json.field("kind", to_string(d.kind)).field("rank", d.rank.value);
  json.field("call", d.position).field("event", d.event).field("fields", d.fields);
  json.field("text", d.text);
  json.end();
}

void write(const std::string& witness, const Disagreement& d, JsonWriter& json) {
  json.object();
  json.field("kind", "witness").field("witness", witness).field("rank", d.rank.value);
  json.field("event", d.event).field("text", d.text);
  json.end();
}

void write(const RankFailure& f, JsonWriter& json) {
  json.object().field("rank", f.rank.value).field("reason", name_of(f.reason));
  json.field("text", f.text).end();
}

// Counts by rank.
void write(const Heard& h, size_t world, JsonWriter& json) {
  std::vector<size_t> calls(world), kernels(world);
  for (const auto& [rank, record] : h.records) {
    if (rank.at() >= world) continue;
    calls[rank.at()] = record.calls.size();
    kernels[rank.at()] = record.launches.size();
  }
  json.object().field("name", h.witness).field("took_part", h.took_part);
  if (!h.took_part) json.field("because", h.why_not);
  json.field("calls", calls).field("kernels", kernels).end();
}

std::vector<int32_t> numbers_of(const std::vector<Rank>& ranks) {
  std::vector<int32_t> list;
  for (const Rank r : ranks) list.push_back(r.value);
  return list;
}

// Rows as the prediction counts them are not visible in a call: an element is a row here.
void write_splits(const Observation& o, JsonWriter& json) {
  if (!o.sends || !o.recvs) return;
  json.key("splits").object().field("unit", "rows").field("row_elements", 1);
  json.field("send", *o.sends).field("recv", *o.recvs).end();
}

void write(const Observation& o, JsonWriter& json) {
  json.object();
  if (o.phase) json.field("phase", *o.phase);
  json.field("op", info(o.op).name);
  json.field("family", o.family.value_or(""));
  json.field("group", numbers_of(o.ranks));
  if (o.tensor) json.field("tensor", *o.tensor);
  json.key("microbatch");
  if (o.microbatch && *o.microbatch >= 0)
    json.value(*o.microbatch);
  else
    json.value(std::nullopt);
  json.field("ranks", std::vector<int32_t>{o.rank.value});
  if (o.peer) json.field("peer", o.peer->value);
  if (o.batch && *o.batch >= 0) json.field("batch", *o.batch);
  if (o.dtype) json.field("dtype", info(*o.dtype).name);
  if (o.elements) json.field("elements", *o.elements);
  json.field("input_bytes", o.input_bytes.value_or(0));
  json.field("output_bytes", o.output_bytes.value_or(0));
  write_splits(o, json);
  if (o.members) json.field("members", *o.members);
  json.end();
}

}  // namespace

void write_json(const Verification& v, std::ostream& out) {
  constexpr auto kLines = JsonWriter::kLines;
  JsonWriter json(out);
  json.object(kLines);
  json.field("schema", "shape2trace.verify/1").field("model", v.model);
  json.field("backend", v.backend).field("stand_in", v.stand_in).field("match", v.match());
  if (!v.kernels.empty()) json.field("kernels", v.kernels);
  json.key("differences").array(kLines);
  for (const Difference& d : v.differences) write(d, json);
  for (const auto& [witness, found] : v.disagreements)
    for (const Disagreement& d : found) write(witness, d, json);
  json.end();
  json.key("failures").array(kLines);
  for (const RankFailure& f : v.failures) write(f, json);
  json.end();
  json.field("max_abs_error", v.max_abs_error);
  json.key("checks").array(kLines);
  for (const Check& c : v.checks) {
    json.object().field("name", c.name).field("passed", c.passed).field("figure", c.figure);
    json.field("tolerance", c.tolerance).field("what", c.text).end();
  }
  json.end();
  json.key("witnesses").array(kLines);
  for (const Heard& h : v.witnesses) write(h, v.observed.size(), json);
  json.end();
  json.key("observed").array(kLines);
  for (const auto& list : v.observed)
    for (const Observation& o : list) write(o, json);
  json.end().end();
}

}  // namespace s2t
