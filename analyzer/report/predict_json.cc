// `predict --format json`: the contract's shape2trace.program/1.
#include <cmath>

#include "analyzer/program/listing.h"
#include "analyzer/program/modules.h"
#include "analyzer/program/tally.h"
#include "analyzer/report/program_json.h"
#include "analyzer/report/report.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

void write_events(JsonWriter& json, const Program& program, const ReportOptions& options,
                  const Selection& selection) {
  json.key("events").array(JsonWriter::kLines);
  const auto each = options.summary ? for_each_summary_event : for_each_event;
  each(program, [&](const Event& event) {
    if (selects(selection, program, event)) write_event(json, program, event);
  });
  json.end();
}

void write_bytes(JsonWriter& json, const SummaryRow& row) {
  json.field("calls", row.calls).field("input_bytes", row.input_bytes);
  json.field("output_bytes", row.output_bytes).field("wire_bytes", row.wire_bytes);
}

// The wire bytes of many ranks, by a name that says of which.
void write_wire_of_all(JsonWriter& json, const SummaryRow& row, const Selection& selection) {
  if (selection.rank) return;
  json.field(selection.stage ? "wire_bytes_of_stage" : "wire_bytes_of_all_ranks", row.wire_of_all);
}

// Owners with what the busiest rank (of a stage) issues, groups with what their busiest rank does.
void write_totals(JsonWriter& json, const Program& program, const Selection& selection) {
  json.key("owners").array(JsonWriter::kLines);
  for (const SummaryRow& row : summarize(program, selection, By::owner)) {
    json.object().field("owner", row.owner).field("phase", to_string(row.phase));
    json.field("stage", row.stage);
    write_bytes(json, row);
    json.end();
  }
  json.end().key("totals").array(JsonWriter::kLines);
  for (const SummaryRow& row : summarize(program, selection, By::family)) {
    const Family& family = program.families.at(row.family);
    json.object().field("family", family.name).field("axes", family.axes);
    json.field("rank", row.rank.value);
    write_bytes(json, row);
    write_wire_of_all(json, row, selection);
    json.end();
  }
  json.end();
}

void write_calls(JsonWriter& json, const Program& program, const ModuleCalls& c) {
  json.object().field("op", info(c.op).name);
  json.field("family", program.families.at(c.family).name);
  json.field("dtype", info(c.dtype).name).field("calls", c.calls);
  json.field("input_bytes", c.most.input_bytes).field("output_bytes", c.most.output_bytes);
  json.field("wire_bytes", c.most.wire_bytes);
  if (c.least != c.most) json.field("least_input_bytes", c.least.input_bytes);
  json.end();
}

void write_modules(JsonWriter& json, const Program& program, const Selection& selection) {
  json.key("modules").array(JsonWriter::kLines);
  for (const ModuleRow& row : module_rows(program, selection)) {
    json.object().field("module", row.stem).field("numbers", row.numbers);
    json.field("phase", to_string(row.phase)).field("stages", row.stages);
    json.field("times", row.times).key("calls").array();
    for (const ModuleCalls& c : row.calls) write_calls(json, program, c);
    json.end().end();
  }
  json.end();
}

void write_counts(JsonWriter& json, const RankClass& c) {
  json.key("kernels").object();
  for (size_t k = 0; k < kernel_names().size(); ++k) json.field(kernel_names()[k], c.kernels[k]);
  json.end().key("operations").object();
  for (const CollectiveDef& def : collectives())
    json.field(def.name, c.operations[static_cast<size_t>(def.op)]);
  json.end();
}

void write_one_rank(JsonWriter& json, const Program& program, Rank rank, const RankClass& c) {
  json.object().field("rank", rank.value).key("coordinates");
  write_coordinates(json, program.mesh, rank);
  write_counts(json, c);
  json.end();
}

void write_class(JsonWriter& json, const RankClass& c) {
  json.object().key("ranks");
  write_rank_set(json, c.ranks);
  write_counts(json, c);
  json.end();
}

void write_fingerprints(JsonWriter& json, const Program& program, const ReportOptions& options) {
  json.key("ranks").array(JsonWriter::kLines);
  if (options.rank) {
    write_one_rank(json, program, *options.rank, class_of(program, *options.rank));
  } else if (program.mesh.world() > kExplicitRanks) {
    for (const RankClass& c : rank_classes(program))
      if (!options.stage || on_stage(c.ranks, program, *options.stage)) write_class(json, c);
  } else {
    const std::vector<RankClass> classes = rank_classes(program);
    for (int64_t r = 0; r < program.mesh.world(); ++r)
      for (const RankClass& c : classes)
        if (const Rank rank(static_cast<int32_t>(r));
            contains(c.ranks, program.mesh, rank) &&
            (!options.stage || on_stage(c.ranks, program, *options.stage)))
          write_one_rank(json, program, rank, c);
  }
  json.end();
}

void write_pipeline(JsonWriter& json, const Program& program) {
  if (!program.timeline) return;
  const Timeline& t = *program.timeline;
  json.key("pipeline").object().field("schedule", t.schedule);
  json.field("bubble_over_ideal", t.bubble()).field("bubble_share", t.bubble_share());
  std::vector<int> peaks;
  for (const TimelineRow& row : t.rows) peaks.push_back(row.peak_activations);
  json.field("peak_activations", peaks).end();
}

void write_loads(JsonWriter& json, const Program& program) {
  if (program.loads.empty()) return;
  json.key("loads").array(JsonWriter::kLines);
  for (const Load& load : program.loads) {
    json.object().field("routing", load.routing).field("axis", load.axis);
    json.field("rows", load.rows).field("hottest", load.hottest);
    const bool finite = !std::isinf(load.ratio);
    json.field("ratio", finite ? std::optional<double>(load.ratio) : std::nullopt);
    json.field("dropped", load.dropped).end();
  }
  json.end();
}

}  // namespace

void write_predict_json(const Program& program, const ReportOptions& options, std::ostream& out) {
  const Selection selection = selection_of(program, options);
  JsonWriter json(out);
  json.object(JsonWriter::kLines).field("schema", "shape2trace.program/1");
  json.field("model", program.model);
  json.key("parameters").object().field("total", program.parameters).end();
  json.key("mesh");
  write_mesh(json, program.mesh);
  json.key("groups");
  write_groups(json, program);
  write_pipeline(json, program);
  write_events(json, program, options, selection);
  if (options.summary) {
    write_totals(json, program, selection);
    write_modules(json, program, selection);
  }
  write_loads(json, program);
  json.key("pruned").array(JsonWriter::kLines);
  for (const Pruned& pruned : program.pruned)
    if (selects(selection, program, pruned.event)) write_pruned(json, program, pruned);
  json.end().key("remarks").array(JsonWriter::kLines);
  for (const Remark& r : program.remarks)
    json.object().field("slug", r.slug).field("text", r.text).end();
  json.end();
  write_fingerprints(json, program, options);
  json.end();
}

}  // namespace s2t
