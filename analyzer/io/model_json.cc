#include "analyzer/io/model_json.h"

#include <filesystem>

#include "analyzer/base/text.h"
#include "analyzer/io/input_file.h"
#include "analyzer/io/model_check.h"
#include "analyzer/io/model_sections.h"

namespace s2t {
namespace {

void check_schema(const JsonCursor& at) {
  constexpr Word<bool> kSchemas[] = {{kModelSchema, true}};
  at.one_of<bool>(kSchemas, "schema");
}

std::string stem(const std::string& file) {
  const std::string name = std::filesystem::path(file).stem().string();
  return file.empty() || file[0] == '<' || name.empty() ? "model" : name;
}

std::set<std::string> outputs(const std::vector<OpDecl>& ops) {
  std::set<std::string> names;
  for (const OpDecl& op : ops) names.insert(op.outputs.begin(), op.outputs.end());
  return names;
}

bool read_loss_scale(const JsonCursor& at) {
  constexpr Word<bool> kScales[] = {{"local", false}, {"global", true}};
  return at.one_of<bool>(kScales, "loss scale").value_or(false);
}

// One line per key of the file.
Model read_sections(const JsonCursor& root) {
  Model model;
  model.file = root.sink().file();
  JsonObject file = root.object();
  KnownAxes axes;
  check_schema(file.required("schema"));
  model.name = file.optional("name").name().value_or(stem(model.file));
  model.mesh = read_mesh(file.required("mesh"), axes);
  read_convention(file.optional("convention"), axes, model);
  model.batch = read_batch(file.optional("batch"), axes);
  model.microbatches = file.optional("microbatches").integer(1, kMostMicrobatches).value_or(1);
  model.ops = read_ops(file.required("ops"), axes);
  model.tensors = read_tensors(file.required("tensors"), axes, outputs(model.ops));
  model.pins = read_pins(file.optional("pins"), axes);
  model.loss = file.optional("loss").name().value_or("");
  model.loss_scale_global = read_loss_scale(file.optional("loss_scale"));
  model.pipeline = read_pipeline(file.optional("pipeline"), axes);
  model.gradient_sync = read_gradient_sync(file.optional("gradient_sync"), axes);
  model.routing = read_routing(file.optional("routing"), axes);
  model.switches = read_switches(file.optional("switches"));
  return model;
}

Model parse_into(std::string_view text, Diagnostics& sink) {
  const std::optional<JsonDocument> document = parse_json(text, sink);
  std::optional<Model> model;
  if (document) model = read_model(JsonCursor(*document, sink));
  sink.throw_if_any();
  return std::move(model).value();
}

}  // namespace

std::optional<Model> read_model(const JsonCursor& root) {
  Model model = read_sections(root);
  check_references(model, root.sink());
  if (root.sink().any()) return std::nullopt;
  return model;
}

Model parse_model(std::string_view text, const std::string& file) {
  Diagnostics sink(file);
  return parse_into(text, sink);
}

Model load_model(const std::string& path) {
  Diagnostics sink(input_name(path));
  const std::optional<std::string> text = read_input(path, sink);
  sink.throw_if_any();
  return parse_into(*text, sink);
}

}  // namespace s2t
