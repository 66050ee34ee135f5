#include "analyzer/cli/verification.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analyzer/analyze.h"
#include "analyzer/base/text.h"
#include "runtime/comm/place.h"
#include "runtime/run/execute.h"
#include "runtime/run/memory.h"
#include "runtime/run/open_files.h"
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

// What the ranks of a record add up to.
struct Seen {
  size_t calls = 0, launches = 0;
};
Seen seen_in(const WitnessRecords& records) {
  Seen seen;
  for (const auto& [rank, record] : records) {
    seen.calls += record.calls.size();
    seen.launches += record.launches.size();
  }
  return seen;
}

std::string words(const Seen& seen) {
  std::vector<std::string> parts;
  if (seen.calls != 0 || seen.launches == 0) parts.push_back(fmt::format("{} calls", seen.calls));
  if (seen.launches != 0) parts.push_back(fmt::format("{} kernels", seen.launches));
  return fmt::format("{}", fmt::join(parts, ", "));
}

Check witness_check(const Heard& heard, const std::vector<Disagreement>& found) {
  Check check{"witness_" + heard.witness, found.empty(), static_cast<double>(found.size()), 0, ""};
  check.text = found.empty() ? fmt::format("{} of {} ranks, as predicted and as recorded",
                                           words(seen_in(heard.records)), heard.records.size())
                             : found[0].text;
  return check;
}

void hear_witnesses(const Program& program, const Watch& watch, Verification& v) {
  v.witnesses = watch.hear();
  for (const Heard& heard : v.witnesses) {
    if (!heard.took_part) continue;
    auto& found = v.disagreements[heard.witness];
    found = compare_with_witness(program, v.observed, heard.witness, heard.records);
    v.checks.push_back(witness_check(heard, found));
  }
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

namespace {

// Predicted they are, for whoever has hardware that adds them; no backend here does.
void refuse_float8_sums(const Program& program, const Model& model) {
  for_each_kept_event(program, [&](const Event& e) {
    const bool sums = e.op == Collective::all_reduce || e.op == Collective::reduce_scatter ||
                      e.op == Collective::reduce;
    if (sums && e.dtype == DType::f8)
      throw UserError(model.file, {{"/tensors",
                                    fmt::format("the {} of {} sums float8, which no backend can",
                                                info(e.op).name, s2t::quoted(e.tensor)),
                                    "collectives that move float8 and sum wider numbers",
                                    "Give the tensors a wider dtype; `predict` takes them as they "
                                    "are.",
                                    "float8-sum"}});
  });
}

void run_and_judge(const Model& model, const VerifyOptions& options, Verification& v) {
  v.stand_in = options.backend->probe().stand_in;
  const Program program = analyze(model);
  refuse_float8_sums(program, model);
  const Graph graph = build_graph(model);
  const Forward forward = plan_forward(graph);
  const bool processes = v.backend != "host";
  if (!is_started_rank())
    require_memory(graph, memory_needed(graph, forward, processes), memory_available());
  if (processes && !is_started_rank())
    require_open_files(graph.mesh.world(), allow_open_files(open_files_needed(graph.mesh.world())));
  for (size_t r = 0; r < graph.routings.size(); ++r) RoutedRows(graph, forward, r);
  require_comparable_means(graph, forward);

  StepOptions step;
  step.hooks = options.hooks;
  step.integers = v.exact = sums_are_exact(graph, forward);
  step.event_ids = ids_of(events_by_rank(program));
  const Watch watch(*options.backend, v.stand_in);
  RunOptions run = options.run;
  watch.load_into(run.environment);
  throw_if_cancelled();
  options.progress(fmt::format("running {} ranks on {}", graph.mesh.world(), v.backend));
  options.ranks_are_processes(processes);
  const StepResult ran = run_step_on(*options.backend, run, graph, forward, step);
  options.ranks_are_processes(false);
  if (ran.result.cause) rethrow_ours(ran.result.cause);
  v.reports = ran.result.reports;
  v.failures = ran.result.failures;
  v.output = ran.result.output;
  if (!v.reports || !v.failures.empty()) return;

  v.kernels = ran.reports.front().kernels;
  for (const RankReport& r : ran.reports) v.observed.push_back(observations_of(r));
  v.differences = compare(program, v.observed);
  v.checks.push_back(events_check(v.differences, v.observed));
  hear_witnesses(program, watch, v);
  options.progress("computing the unsharded model");
  const Reference reference = run_reference(graph, forward, v.exact);
  options.progress("comparing numbers");
  Judgement numbers = judge(graph, forward, reference, ran.reports, v.exact, step.learning_rate);
  v.checks.insert(v.checks.end(), numbers.checks.begin(), numbers.checks.end());
  v.max_abs_error = numbers.max_abs_error;
}

}  // namespace

Verification verify(const Model& model, const VerifyOptions& options) {
  Verification v;
  v.model = model.name;
  v.backend = options.backend->name;
  try {
    run_and_judge(model, options, v);
    throw_if_cancelled();
  } catch (const CommError& error) {
    if (error.reason() != CommReason::cancelled) throw;
    return cancelled(v.model, v.backend);
  }
  return v;
}

Verification cancelled(const std::string& model, const std::string& backend) {
  Verification v;
  v.model = model;
  v.backend = backend;
  v.failures = {{Rank(0), CommReason::cancelled, kCancelled}};
  return v;
}

}  // namespace s2t
