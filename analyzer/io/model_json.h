// Reads a model file ("schema": "shape2trace.model/1") into a `Model`.
//
// The file format is described for people in docs/model-file.md and for editors in
// schemas/model.schema.json. Every mistake that can be seen without inferring shapes is reported
// here, all at once: unknown keys, names and words, wrong types and ranges, duplicate names, axes
// that do not make a mesh, ops before their inputs, stages that go backwards. Shapes and layouts
// are checked when the graph is built, with the pointers that the model carries.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "analyzer/base/diagnostics.h"
#include "analyzer/graph/model.h"
#include "analyzer/io/json_cursor.h"

namespace s2t {

inline constexpr std::string_view kModelSchema = "shape2trace.model/1";

// The model in a parsed document; nullopt if anything was reported.
std::optional<Model> read_model(const JsonCursor& root);

// The model in `text`, which messages call `file`. Throws UserError.
Model parse_model(std::string_view text, const std::string& file = "<model>");

// The model in the file at `path` ("-": standard input). Throws UserError.
Model load_model(const std::string& path);

}  // namespace s2t
