#include "analyzer/cli/verification.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/analyze.h"
#include "analyzer/base/text.h"
#include "analyzer/report/json_writer.h"
#include "runtime/run/execute.h"
#include "runtime/run/routed_rows.h"

namespace s2t {
namespace {

Collective collective_of(CommOp op) {
  for (const CollectiveDef& def : collectives())
    if (def.name == name_of(op)) return def.op;
  throw Fault("a run issued a barrier");
}

Check events_check(const std::vector<Difference>& differences,
                   const std::vector<std::vector<Observation>>& observed) {
  size_t calls = 0;
  for (const auto& list : observed) calls += list.size();
  Check check{"events", differences.empty(), static_cast<double>(differences.size()), 0, ""};
  check.text = differences.empty()
                   ? fmt::format("{} calls of {} ranks ran as predicted", calls, observed.size())
                   : differences[0].text;
  return check;
}

std::vector<std::vector<int64_t>> ids_of(const std::vector<std::vector<Event>>& events) {
  std::vector<std::vector<int64_t>> ids;
  for (const auto& list : events) {
    ids.emplace_back();
    for (const Event& e : list) ids.back().push_back(e.id);
  }
  return ids;
}

// What a rank threw is the run's failure, unless the model cannot be run at all or we are wrong.
void rethrow_ours(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const UserError&) {
    throw;
  } catch (const Fault&) {
    throw;
  } catch (...) {
  }
}

}  // namespace

bool Verification::match() const {
  return failures.empty() && differences.empty() &&
         std::all_of(checks.begin(), checks.end(), [](const Check& c) { return c.passed; });
}

std::vector<Observation> observations_of(const RankReport& report) {
  std::vector<Observation> list;
  for (const TaggedCall& tagged : report.calls) {
    const RecordedCall& call = tagged.call;
    Observation o;
    o.rank = report.rank;
    o.op = collective_of(call.op);
    o.phase = tagged.tag.phase;
    o.family = tagged.tag.family;
    o.ranks = call.ranks;
    o.tensor = tagged.tag.tensor;
    o.members = tagged.tag.members;
    o.microbatch = tagged.tag.microbatch;
    if (call.op == CommOp::send || call.op == CommOp::recv) o.peer = call.peer;
    o.batch = call.batch;
    o.dtype = call.dtype;
    o.elements = call.count;
    o.input_bytes = call.input_bytes;
    o.output_bytes = call.output_bytes;
    if (call.op == CommOp::all_to_all) {
      o.sends = call.sends;
      o.recvs = call.recvs;
    }
    list.push_back(std::move(o));
  }
  return list;
}

Verification verify(const Model& model, const VerifyOptions& options) {
  Verification v;
  v.model = model.name;
  v.backend = options.backend->name;
  v.stand_in = options.backend->probe().stand_in;
  const Program program = analyze(model);
  const Graph graph = build_graph(model);
  const Forward forward = plan_forward(graph);
  for (size_t r = 0; r < graph.routings.size(); ++r) RoutedRows(graph, forward, r);

  StepOptions step;
  step.hooks = options.hooks;
  step.integers = v.exact = sums_are_exact(graph, forward);
  step.event_ids = ids_of(events_by_rank(program));
  const StepResult ran = run_step_on(*options.backend, options.run, graph, forward, step);
  if (ran.result.cause) rethrow_ours(ran.result.cause);
  v.reports = ran.result.reports;
  v.failures = ran.result.failures;
  v.output = ran.result.output;
  if (!v.reports || !v.failures.empty()) return v;

  for (const RankReport& r : ran.reports) v.observed.push_back(observations_of(r));
  v.differences = compare(program, v.observed);
  const Reference reference = run_reference(graph, forward, v.exact);
  Judgement numbers = judge(graph, forward, reference, ran.reports, v.exact, step.learning_rate);
  v.checks.push_back(events_check(v.differences, v.observed));
  v.checks.insert(v.checks.end(), numbers.checks.begin(), numbers.checks.end());
  v.max_abs_error = numbers.max_abs_error;
  return v;
}

// --- text ----------------------------------------------------------------------------------------

void write_text(const Verification& v, std::ostream& out) {
  out << fmt::format("{} on {}{}\n\n", v.model, v.backend,
                     v.stand_in ? " (stand-ins of the libraries, no GPU)" : "");
  for (const RankFailure& f : v.failures)
    out << fmt::format("rank {} {}: {}\n", f.rank.value, name_of(f.reason), f.text);
  if (!v.failures.empty()) return;
  out << fmt::format("  {:<16} {:<6} {:>11} {:>11}  {}\n", "check", "result", "figure", "allowed",
                     "what");
  for (const Check& c : v.checks)
    out << fmt::format("  {:<16} {:<6} {:>11.3g} {:>11.3g}  {}\n", c.name,
                       c.passed ? "ok" : "FAILED", c.figure, c.tolerance, c.text);
  for (const Difference& d : v.differences) out << "\n  " << d.text;
  out << fmt::format("{}\n{}\n", v.differences.empty() ? "" : "\n",
                     v.match() ? "Everything ran as predicted and computes what the unsharded "
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
  json.key("differences").array(kLines);
  for (const Difference& d : v.differences) write(d, json);
  json.end();
  json.field("max_abs_error", v.max_abs_error);
  json.key("checks").array(kLines);
  for (const Check& c : v.checks) {
    json.object().field("name", c.name).field("passed", c.passed).field("figure", c.figure);
    json.field("tolerance", c.tolerance).field("what", c.text).end();
  }
  json.end();
  json.key("observed").array(kLines);
  for (const auto& list : v.observed)
    for (const Observation& o : list) write(o, json);
  json.end().end();
}

}  // namespace s2t
