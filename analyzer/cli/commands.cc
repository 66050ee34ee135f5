// The commands that analyze a model and report on the result.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "analyzer/analyze.h"
#include "analyzer/base/text.h"
#include "analyzer/cli/command.h"
#include "analyzer/cli/ending.h"
#include "analyzer/cli/other_settings.h"
#include "analyzer/cli/outside.h"
#include "analyzer/cli/plan_options.h"
#include "analyzer/report/dot.h"
#include "analyzer/report/report.h"

namespace s2t {
namespace {

constexpr OptionDef kPredictOptions[] = {
    {"--rank", "R", "only what this rank issues, in its order"},
    {"--stage", "S", "only what ranks of this pipeline coordinate issue"},
    {"--module", "M", "only what belongs to a module or owner: layers.3, \"layers.*.attn\", moe"},
    {"--summary", "", "totals; in json and csv one event for all microbatches, with `repeat`"},
    {"--expand", "", "all events, however many (text)"},
};
constexpr OptionDef kGroupsOptions[] = {
    {"--rank", "R", "only this rank's row; in pictures its cell and its groups"},
    {"--expand", "", "all ranks and groups, however many (text)"},
};

constexpr std::span<const OptionDef> kNoOptions;
constexpr OptionDef kRenderOptions[] = {
    {"--phase", "P", "only collectives of this phase: forward, backward, grad_sync, ..."},
    {"--axis", "A", "only collectives over this axis"},
    {"--rank", "R", "only what this rank runs and issues"},
    {"--layers", "L", "only these layers: 3 or 2-5, a number in the module or name of an op"},
};
constexpr OptionDef kScheduleOptions[] = {
    {"--forward-ms", "T", "time of a forward of one microbatch on one rank"},
    {"--backward-ms", "T", "time of its backward; default: twice the forward"},
    {"--p2p-ms", "T", "time of one message between stages, for which both ranks wait; default: 0"},
};

// A command's own options, then those of plans.
template <const auto& own>
std::span<const OptionDef> and_plan() {
  static const std::vector<OptionDef> all = with_plan_options(own);
  return all;
}

std::vector<std::string> predict_formats() {
  return report_formats("predict");
}
std::vector<std::string> groups_formats() {
  return report_formats("groups");
}
std::vector<std::string> explain_formats() {
  return report_formats("explain");
}

std::vector<std::string> render_formats() {
  return report_formats("render");
}
std::vector<std::string> schedule_formats() {
  return report_formats("schedule");
}

// Graphviz takes long over more: 500 boxes 2 s, 1000 boxes 16 s.
constexpr size_t kMostBoxes = 400;

ReportOptions options_of(const Arguments& arguments) {
  ReportOptions options;
  if (const auto rank = arguments.integer("--rank", 0, INT32_MAX))
    options.rank = Rank(static_cast<int32_t>(*rank));
  options.stage = arguments.integer("--stage", 0, INT32_MAX);
  options.module = arguments.text("--module");
  options.summary = arguments.has("--summary");
  options.expand = arguments.has("--expand");
  options.color = arguments.color;
  options.phase = arguments.text("--phase");
  options.axis = arguments.text("--axis");
  options.layers = arguments.text("--layers");
  return options;
}

// A rank of another stage issues nothing there: an answer of nothing would look like one.
void check_rank_and_stage(const Program& program, const ReportOptions& options) {
  const std::optional<AtomIndex> pipeline = program.mesh.pipeline_atom();
  if (!options.rank || !options.stage || options.rank->value >= program.mesh.world()) return;
  const int64_t is = pipeline ? program.mesh.coordinate(*options.rank, *pipeline) : 0;
  if (is == *options.stage) return;
  throw UserError("shape2trace", {{"--rank",
                                   fmt::format("rank {} is on stage {}, but --stage is {}",
                                               options.rank->value, is, *options.stage),
                                   fmt::format("--stage {}, or one of the two options", is), "",
                                   "contradiction"}});
}

void write_report(std::string_view command, const Program& program, const Arguments& arguments,
                  std::ostream& out, std::ostream& err) {
  const Report& report = find_report(command, arguments.format);
  ReportOptions options = options_of(arguments);
  check_rank_and_stage(program, options);
  const bool mermaid = report.format == "mermaid";
  if (report.through.empty() && !mermaid) return report.write(program, options, out);
  if (!mermaid) options.most_boxes = kMostBoxes;
  std::ostringstream text;
  report.write(program, options, text);
  out << (mermaid ? text.str() : run_through(report.through, text.str()));
  if (const std::string excess = mermaid ? mermaid_excess(text.str()) : ""; !excess.empty())
    err << "remark: more than Mermaid draws: " << excess
        << (command == "render" ? "; draw less with --layers, --phase, --axis or --rank\n" : "\n");
}

int run_report(std::string_view command, const Arguments& arguments, std::ostream& out,
               std::ostream& err) {
  const TidyEnding tidy;
  write_report(command, analyze(load_operand(arguments)), arguments, out, err);
  return kOk;
}

int run_predict(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  return run_report("predict", arguments, out, err);
}
int run_groups(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  return run_report("groups", arguments, out, err);
}
int run_explain(const Arguments& arguments, std::ostream& out, std::ostream&) {
  const OperandText text = read_operand(arguments);
  const Operand operand = load_text(arguments, text);
  ReportOptions options = options_of(arguments);
  options.words.assign(arguments.operands.begin() + 1, arguments.operands.end());
  options.other_settings = [&](const auto& visit) {
    for_each_other_setting(arguments, text, operand, visit);
  };
  find_report("explain", arguments.format).write(analyze(operand.model), options, out);
  return kOk;
}
// The graph inside the page, or why it is not there: the rest of the page does without.
void draw_graph(const Program& program, ReportOptions& options) {
  options.most_boxes = kMostBoxes;
  std::ostringstream text;
  try {
    find_report("render", "dot").write(program, options, text);
    options.graph_svg = run_through(find_report("render", "svg").through, text.str());
  } catch (const Absent& e) {
    options.graph_missing = e.what();
  } catch (const TooMuchToDraw& e) {
    options.graph_missing = e.diagnostics().front().found;
  } catch (const DrawingFailed& e) {
    options.graph_missing = e.what();
  }
}

int run_render(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  const TidyEnding tidy;
  const Program program = analyze(load_operand(arguments));
  if (arguments.format != "html") {
    write_report("render", program, arguments, out, err);
    return kOk;
  }
  ReportOptions options = options_of(arguments);
  draw_graph(program, options);
  if (!options.graph_missing.empty())
    err << "remark: no picture of the graph: " << options.graph_missing << "\n";
  find_report("render", "html").write(program, options, out);
  return kOk;
}

std::optional<double> milliseconds(const Arguments& arguments, std::string_view flag) {
  if (!arguments.has(flag)) return std::nullopt;
  const std::string word = arguments.text(flag);
  char* end = nullptr;
  const double time = std::strtod(word.c_str(), &end);
  if (!word.empty() && *end == '\0' && time >= 0 && time <= kMostCost) return time;
  throw UserError("shape2trace", {{std::string(flag), quoted(word) + " is no time",
                                   "milliseconds, 0 to 1e9", "", "out-of-range"}});
}

Costs costs_of(const Arguments& arguments) {
  const auto forward = milliseconds(arguments, "--forward-ms"),
             backward = milliseconds(arguments, "--backward-ms"),
             p2p = milliseconds(arguments, "--p2p-ms");
  Costs costs;
  if (!forward && !backward && !p2p) return costs;
  costs.unit = "ms";
  costs.forward = forward.value_or(1);
  costs.backward = backward.value_or(2 * costs.forward);
  costs.p2p = p2p.value_or(0);
  if (costs.backward > kMostCost)
    throw UserError("shape2trace",
                    {{"--forward-ms", "the backward would take twice that, more than 1e9 ms",
                      "5e8 at most, or --backward-ms", "", "out-of-range"}});
  return costs;
}

// Without a pipeline every rank runs the microbatches one after the other.
Timeline one_rank(const Program& program, const Costs& costs) {
  PipelinePlan plan;
  plan.microbatches = static_cast<int>(program.microbatches);
  plan.forward_only = std::none_of(program.order.begin(), program.order.end(),
                                   [](const auto& a) { return a.kind == SpanKind::backward; });
  Timeline timeline = simulate(plan, costs);
  timeline.title = program.model;
  timeline.schedule = "no pipeline";
  timeline.rows.front().label = program.mesh.world() == 1 ? "rank 0" : "every rank";
  return timeline;
}

int run_schedule(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  const Costs costs = costs_of(arguments);
  Program program = analyze(load_operand(arguments), costs);
  if (!program.timeline) {
    program.timeline = one_rank(program, costs);
    err << "remark: the model has no pipeline; what every rank does is shown\n";
  }
  write_report("schedule", program, arguments, out, err);
  return kOk;
}

}  // namespace

CommandTable report_commands() {
  return {
      {"predict",
       {"MODEL"},
       "the collectives of one training step: kind, group, order, bytes, cause",
       "shape2trace predict models/tp_ar_b128.json\n"
       "  shape2trace predict models/tp_pp_dp_8ranks.json --stage 1 --module pipeline\n"
       "  shape2trace predict models/tp_sp_b128.json --format chakra --rank 0 -o step.0.et",
       predict_formats,
       and_plan<kPredictOptions>(),
       run_predict},
      {"groups",
       {"MODEL"},
       "rank coordinates, process groups, and the order in which they must be created",
       "shape2trace groups models/tp_ar_b128.json",
       groups_formats,
       and_plan<kGroupsOptions>(),
       run_groups},
      {"explain",
       {"MODEL", "EVENT..."},
       "why an event exists, or was pruned: its id, or words for many: a module, kind, group, "
       "tensor",
       "shape2trace explain models/tp_ar_b128.json 0\n"
       "  shape2trace explain config.json --profile megatron --tp 8 --sp --seq 8192 layers.0 "
       "all_gather",
       explain_formats,
       and_plan<kNoOptions>(),
       run_explain},
      {"render",
       {"MODEL"},
       "the graph by stage and layer, with layouts and collectives",
       "shape2trace render models/tp_ar_b128.json --format svg -o graph.svg",
       render_formats,
       and_plan<kRenderOptions>(),
       run_render},
      {"schedule",
       {"MODEL"},
       "the pipeline's timeline: what each rank does when, and the bubble",
       "shape2trace schedule models/1f1b_p4_m8.json",
       schedule_formats,
       and_plan<kScheduleOptions>(),
       run_schedule},
  };
}

}  // namespace s2t
