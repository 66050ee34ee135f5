// Reads a Hugging Face config.json into an `Architecture`.
//
// A key that is absent has the default of the family's class, as in transformers; synonyms
// (`n_embd`, `d_model`) are one key, and a multimodal file's `text_config` is what is read. Every
// mistake is reported at once. What cannot be read is refused with the reason, never guessed: an
// unknown model type, another tool's schema. A number that is legal but implausible is a remark of
// the architecture. Not known here: how the model is split, or what it costs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "analyzer/io/architecture.h"
#include "analyzer/io/json_cursor.h"

namespace s2t {

// Whether this is meant to be a config: it names a model type or an architecture, and no schema.
bool is_hf_config(const JsonCursor& root);

// nullopt if anything was reported.
std::optional<Architecture> read_hf_config(const JsonCursor& root);

// The architecture in `text`, which messages call `file`. Throws UserError.
Architecture parse_hf_config(std::string_view text, const std::string& file = "config.json");

}  // namespace s2t
