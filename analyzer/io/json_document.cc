#include "analyzer/io/json_document.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

// Writes nodes until the budget is spent.
class Excerpt {
 public:
  Excerpt(const JsonDocument& document, size_t limit) : document_(document), limit_(limit) {}

  std::string of(uint32_t id) {
    write(id);
    if (text_.size() <= limit_) return text_;
    size_t cut = limit_;
    while (cut > 0 && (text_[cut] & 0xC0) == 0x80) --cut;  // not inside a code point
    return text_.substr(0, cut) + "...";
  }

 private:
  // Recursion is bounded: every level writes at least one byte of a small budget.
  void write(uint32_t id) {
    if (text_.size() > limit_) return;
    const JsonNode& node = document_.node(id);
    switch (node.kind) {
      case JsonKind::null:
        text_ += "null";
        break;
      case JsonKind::boolean:
        text_ += node.truth ? "true" : "false";
        break;
      case JsonKind::number:
        text_ += node.text;
        break;
      case JsonKind::string:
        text_ += quoted(head(node.text));
        break;
      case JsonKind::array:
        write_children(id, '[', ']');
        break;
      case JsonKind::object:
        write_children(id, '{', '}');
        break;
    }
  }

  void write_children(uint32_t id, char open, char close) {
    text_ += open;
    const uint32_t end = document_.node(id).end;
    for (uint32_t child = id + 1; child < end && text_.size() <= limit_;
         child = document_.node(child).end) {
      const JsonNode& node = document_.node(child);
      if (node.position > 0) text_ += ", ";
      if (open == '{') text_ += quoted(head(node.key)) + ": ";
      write(child);
    }
    text_ += close;
  }

  std::string_view head(std::string_view s) const { return s.substr(0, limit_ + 1); }

  const JsonDocument& document_;
  size_t limit_;
  std::string text_;
};

}  // namespace

std::vector<uint32_t> JsonDocument::children(uint32_t id) const {
  std::vector<uint32_t> ids;
  ids.reserve(nodes_[id].children);
  for (uint32_t child = id + 1; child < nodes_[id].end; child = nodes_[child].end)
    ids.push_back(child);
  return ids;
}

std::optional<uint32_t> JsonDocument::find(uint32_t object, std::string_view key) const {
  for (uint32_t child = object + 1; child < nodes_[object].end; child = nodes_[child].end)
    if (nodes_[child].key == key) return child;
  return std::nullopt;
}

std::string JsonDocument::pointer(uint32_t id) const {
  std::vector<uint32_t> path;
  for (; id != 0; id = nodes_[id].parent) path.push_back(id);
  std::string text;
  for (auto at = path.rbegin(); at != path.rend(); ++at) {
    const JsonNode& node = nodes_[*at];
    const bool element = nodes_[node.parent].kind == JsonKind::array;
    text += '/';
    text += element ? std::to_string(node.position) : escape_pointer_token(node.key);
  }
  return text;
}

std::string JsonDocument::excerpt(uint32_t id, size_t limit) const {
  return Excerpt(*this, limit).of(id);
}

std::string escape_pointer_token(std::string_view token) {
  std::string text;
  for (const char c : token) {
    if (c == '~')
      text += "~0";
    else if (c == '/')
      text += "~1";
    else
      text += c;
  }
  return text;
}

}  // namespace s2t
