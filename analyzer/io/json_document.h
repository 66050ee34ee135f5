// A JSON document as a flat tree in document order, which remembers who is whose child.
//
// Known here: JSON syntax, how to say where it breaks, and JSON pointers (RFC 6901). Not known
// here: what any key means. Readers go through `JsonCursor`, never through the nodes, so that
// whatever they object to has a location. Nothing recurses: a deeply nested file cannot exhaust
// the stack.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/base/diagnostics.h"

namespace s2t {

enum class JsonKind : uint8_t { null, boolean, number, string, array, object };

struct JsonLimits {
  size_t depth = 200;         // arrays and objects inside each other
  size_t values = 1'000'000;  // in the whole document
};

struct JsonNode {
  JsonKind kind = JsonKind::null;
  bool truth = false;     // of a boolean
  double number = 0;      // of a number
  uint32_t parent = 0;    // the root is its own parent
  uint32_t position = 0;  // among its parent's children
  uint32_t children = 0;
  uint32_t end = 0;   // one past its last descendant: descendants are the nodes up to there
  uint32_t line = 0;  // of its key
  std::string key;    // in its object; empty for array elements
  std::string text;   // of a string; of a number the digits
};

class JsonDocument {
 public:
  explicit JsonDocument(std::vector<JsonNode> nodes) : nodes_(std::move(nodes)) {}

  const JsonNode& node(uint32_t id) const { return nodes_[id]; }
  std::vector<uint32_t> children(uint32_t id) const;
  std::optional<uint32_t> find(uint32_t object, std::string_view key) const;

  // "/ops/3/inputs/0"; "" for the root.
  std::string pointer(uint32_t id) const;

  // What stands there, as JSON on one line, cut with "..." after about `limit` bytes.
  std::string excerpt(uint32_t id, size_t limit = 40) const;

 private:
  std::vector<JsonNode> nodes_;  // parents before children, never empty
};

// nullopt if the text is not JSON. A duplicate key is reported but the document still comes back,
// so that the other errors in it can be found too.
// Slugs: json-syntax, json-truncated, nested-too-deep, too-many-values, number-too-large,
// duplicate-key.
std::optional<JsonDocument> parse_json(std::string_view text, Diagnostics& sink,
                                       const JsonLimits& limits = {});

// One token of a JSON pointer: "~" is written "~0" and "/" is written "~1".
std::string escape_pointer_token(std::string_view token);

}  // namespace s2t
