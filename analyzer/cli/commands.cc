// The commands that analyze a model and report on the result.
#include "analyzer/analyze.h"
#include "analyzer/cli/command.h"
#include "analyzer/io/model_json.h"
#include "analyzer/report/report.h"

namespace s2t {
namespace {

constexpr OptionDef kPredictOptions[] = {
    {"--rank", "R", "only what this rank issues, in its order"},
    {"--summary", "", "totals; in json and csv one event for all microbatches, with `repeat`"},
    {"--expand", "", "all events, however many (text)"},
};
constexpr OptionDef kGroupsOptions[] = {
    {"--rank", "R", "only this rank's row"},
    {"--expand", "", "all ranks and groups, however many (text)"},
};

std::vector<std::string> predict_formats() {
  return report_formats("predict");
}
std::vector<std::string> groups_formats() {
  return report_formats("groups");
}
std::vector<std::string> explain_formats() {
  return report_formats("explain");
}

ReportOptions options_of(const Arguments& arguments) {
  ReportOptions options;
  if (const auto rank = arguments.integer("--rank", 0, INT32_MAX))
    options.rank = Rank(static_cast<int32_t>(*rank));
  options.summary = arguments.has("--summary");
  options.expand = arguments.has("--expand");
  options.color = arguments.color;
  if (arguments.operands.size() > 1) options.event = arguments.operands[1];
  return options;
}

int run_report(std::string_view command, const Arguments& arguments, std::ostream& out) {
  const Report& report = find_report(command, arguments.format);
  const ReportOptions options = options_of(arguments);
  report.write(analyze(load_model(arguments.operands[0])), options, out);
  return kOk;
}

int run_predict(const Arguments& arguments, std::ostream& out, std::ostream&) {
  return run_report("predict", arguments, out);
}
int run_groups(const Arguments& arguments, std::ostream& out, std::ostream&) {
  return run_report("groups", arguments, out);
}
int run_explain(const Arguments& arguments, std::ostream& out, std::ostream&) {
  return run_report("explain", arguments, out);
}

}  // namespace

CommandTable report_commands() {
  return {
      {"predict",
       {"MODEL"},
       "the collectives of one training step: kind, group, order, bytes, cause",
       "shape2trace predict models/tp_ar_b128.json",
       predict_formats,
       kPredictOptions,
       run_predict},
      {"groups",
       {"MODEL"},
       "rank coordinates, process groups, and the order in which they must be created",
       "shape2trace groups models/tp_ar_b128.json",
       groups_formats,
       kGroupsOptions,
       run_groups},
      {"explain",
       {"MODEL", "EVENT"},
       "why an event exists, or why it was pruned",
       "shape2trace explain models/tp_ar_b128.json 0",
       explain_formats,
       {},
       run_explain},
  };
}

}  // namespace s2t
