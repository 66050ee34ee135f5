// `list KIND`: the tables of the program, for people and for completion scripts.
#include <algorithm>
#include <set>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/dtype.h"
#include "analyzer/base/slugs.h"
#include "analyzer/base/text.h"
#include "analyzer/cli/listing.h"
#include "analyzer/cli/other_settings.h"
#include "analyzer/comm/collective.h"
#include "analyzer/io/hf_families.h"
#include "analyzer/io/profiles.h"
#include "analyzer/ops/op.h"
#include "analyzer/report/json_writer.h"
#include "analyzer/report/report.h"
#include "analyzer/report/table.h"
#include "analyzer/schedule/pipeline.h"
#include "runtime/comm/backend.h"

namespace s2t {
namespace {

std::string text(std::string_view view) {
  return std::string(view);
}

// Keys of a model file that an op takes beside the common ones; optional ones in brackets.
std::string attributes_of(const OpDef& op) {
  std::string names;
  for (const AttributeDef& a : op.attributes)
    names += (names.empty() ? "" : " ") + (a.required ? text(a.name) : "[" + text(a.name) + "]");
  return names;
}

Rows list_ops() {
  Rows rows{{"name", "family", "summary", "rule", "keys"}, {}};
  for (const OpDef& op : op_table()) {
    const std::string rule = !op.rule.empty()    ? text(op.rule)
                             : !op.steps.empty() ? "composite"
                                                 : "by its attributes";
    rows.rows.push_back(
        {text(op.name), text(op.family), text(op.summary), rule, attributes_of(op)});
  }
  return rows;
}

Rows list_schedules() {
  Rows rows{{"name", "summary", "source"}, {}};
  for (const ScheduleDef& s : schedules())
    rows.rows.push_back({text(s.name), text(s.description), text(s.source)});
  return rows;
}

Rows list_profiles() {
  Rows rows{{"profile", "switch", "value", "source"}, {}};
  for (const ProfileDef& p : profiles())
    for (const ProfileSetting& s : Profile(p).settings())
      rows.rows.push_back({text(p.name), text(s.name), text(s.value), text(s.source)});
  return rows;
}

Rows list_models() {
  Rows rows{{"model_type", "class"}, {}};
  for (const ConfigFamily& f : config_families())
    rows.rows.push_back({text(f.type), text(f.klass)});
  return rows;
}

// Those of a model file (docs/model-file.md), which a test gives to the reader one by one, and
// those of profiles (docs/profiles.md).
Rows list_switches() {
  Rows rows{{"name", "values", "stated in", "meaning"}, {}};
  for (const ModelSwitch& s : model_switches())
    rows.rows.push_back({text(s.name), text(s.values), "a model file", text(s.meaning)});
  for (const ProfileSwitch& s : profile_switches())
    rows.rows.push_back({text(s.name), text(s.values), "--set", text(s.meaning)});
  return rows;
}

Rows list_backends() {
  Rows rows{{"name", "summary"}, {}};
  for (const Backend& b : backends()) rows.rows.push_back({text(b.name), text(b.summary)});
  return rows;
}

Rows list_dtypes() {
  Rows rows{{"name", "brief", "bytes", "gradient"}, {}};
  for (const DTypeInfo& d : dtypes())
    rows.rows.push_back(
        {text(d.name), text(d.brief), std::to_string(d.bytes), d.differentiable ? "yes" : "no"});
  return rows;
}

Rows list_collectives() {
  Rows rows{{"name", "brief", "kernel", "backward"}, {}};
  for (const CollectiveDef& c : collectives())
    rows.rows.push_back({text(c.name), text(c.brief), text(c.kernel), text(info(c.dual).name)});
  return rows;
}

Rows list_formats() {
  Rows rows{{"command", "formats"}, {}};
  std::set<std::string_view> seen;
  for (const Report& r : reports())
    if (seen.insert(r.command).second)
      rows.rows.push_back({text(r.command), join(report_formats(r.command), " ")});
  return rows;
}

Rows list_errors() {
  Rows rows{{"slug", "kind", "meaning"}, {}};
  for (const Slug& s : slugs())
    rows.rows.push_back({text(s.name), text(to_string(s.kind)), text(s.meaning)});
  return rows;
}

struct Kind {
  std::string_view name;
  std::string_view summary;
  Rows (*rows)();
};

constexpr Kind kKinds[] = {
    {"ops", "what a model may compute, with the factor rule of each", list_ops},
    {"schedules", "pipeline schedules", list_schedules},
    {"profiles", "how frameworks train a config.json, setting by setting", list_profiles},
    {"models", "model types whose config.json is read", list_models},
    {"switches", "behaviours in which frameworks differ", list_switches},
    {"dtypes", "element types", list_dtypes},
    {"collectives", "the collectives and their NCCL kernels", list_collectives},
    {"backends", "what `verify` can run on; see also doctor", list_backends},
    {"formats", "what each command can print", list_formats},
    {"errors", "the slugs of errors and remarks", list_errors},
};

const Kind& find_kind(const std::string& name) {
  std::vector<std::string> names;
  for (const Kind& k : kKinds) {
    if (k.name == name) return k;
    names.emplace_back(k.name);
  }
  throw UserError("shape2trace",
                  {{"list", "unknown kind " + quoted(name), "one of " + quoted_list(names, 16),
                    did_you_mean(name, names), "unknown-kind"}});
}

}  // namespace

void print_rows(const Rows& rows, const Arguments& arguments, const std::string& schema,
                const std::vector<std::pair<std::string, std::string>>& head, std::ostream& out) {
  if (arguments.format == "json") {
    JsonWriter json(out);
    json.object(JsonWriter::kLines).field("schema", schema);
    for (const auto& [key, value] : head) json.field(key, value);
    json.key("rows").array(JsonWriter::kLines);
    for (const auto& row : rows.rows) {
      json.object();
      for (size_t i = 0; i < rows.titles.size(); ++i) json.field(rows.titles[i], row[i]);
      json.end();
    }
    json.end().end();
    return;
  }
  std::vector<Column> columns;
  for (const std::string& title : rows.titles) columns.push_back({title, Column::Kind::wrapped});
  Table table(std::move(columns));
  for (const auto& row : rows.rows) table.row(row);
  table.print(out, 0);
}

int run_list(const Arguments& arguments, std::ostream& out, std::ostream&) {
  const std::string& name = arguments.operands[0];
  print_rows(find_kind(name).rows(), arguments, "shape2trace.list/1", {{"kind", name}}, out);
  return kOk;
}

}  // namespace s2t
