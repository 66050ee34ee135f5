#include "analyzer/io/json_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

std::string_view kind_name(JsonKind kind) {
  switch (kind) {
    case JsonKind::null:
      return "null";
    case JsonKind::boolean:
      return "boolean";
    case JsonKind::number:
      return "number";
    case JsonKind::string:
      return "string";
    case JsonKind::array:
      return "array";
    case JsonKind::object:
      return "object";
  }
  return "";
}

std::string integer_words(int64_t least, int64_t most) {
  if (most != JsonCursor::kNoMost)
    return fmt::format("an integer from {} to {}", least, commas(static_cast<uint64_t>(most)));
  if (least == 1) return "a positive integer";
  if (least == 0) return "an integer that is not negative";
  return least == std::numeric_limits<int64_t>::min() ? "an integer"
                                                      : fmt::format("an integer from {}", least);
}

struct Integer {
  int64_t value = 0;
  bool whole = false;  // no fraction
  bool fits = false;   // in 64 bits, exactly
};

Integer integer_in(const JsonNode& node) {
  const char* end = node.text.data() + node.text.size();
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(node.text.data(), end, value);
  if (stop == end) return {value, true, error == std::errc{}};
  constexpr double kExact = 9007199254740992.0;  // 2^53: doubles beyond it skip integers
  if (std::trunc(node.number) != node.number) return {};
  if (std::abs(node.number) > kExact) return {0, true, false};
  return {static_cast<int64_t>(node.number), true, true};
}

bool is_comment(std::string_view key) {
  return key.substr(0, 1) == "$" || key.substr(0, 2) == "//" || key == "comment" ||
         key == "description";
}

}  // namespace

JsonCursor::JsonCursor(const JsonDocument& document, Diagnostics& sink)
    : JsonCursor(&document, &sink, 0, true) {}

bool JsonCursor::is(JsonKind kind) const {
  return present_ && node().kind == kind;
}

std::string JsonCursor::key() const {
  return present_ ? node().key : "";
}

std::string JsonCursor::pointer() const {
  return document_->pointer(node_);
}

std::string JsonCursor::excerpt() const {
  return present_ ? document_->excerpt(node_) : "";
}

void JsonCursor::error(std::string found, std::string expected, std::string advice,
                       std::string slug) const {
  sink_->add(
      {pointer(), std::move(found), std::move(expected), std::move(advice), std::move(slug)});
}

void JsonCursor::wrong_type(std::string expected) const {
  const std::string_view kind = kind_name(node().kind);
  error(is(JsonKind::null) ? "null" : fmt::format("the {} {}", kind, excerpt()),
        std::move(expected), "", "wrong-type");
}

void JsonCursor::unknown(std::string_view what, std::string_view name,
                         std::span<const std::string> known) const {
  if (sink_->full()) return;  // a guess among many names costs time
  std::string slug = fmt::format("unknown-{}", what);
  std::replace(slug.begin(), slug.end(), ' ', '-');
  const std::string expected = known.empty()       ? "none, for there is none"
                               : known.size() == 1 ? quoted(known[0])
                                                   : "one of " + quoted_list(known);
  error(fmt::format("unknown {} {}", what, quoted(name.substr(0, 80))), expected,
        did_you_mean(name, known), slug);
}

std::optional<std::string> JsonCursor::string() const {
  if (!present_) return std::nullopt;
  if (is(JsonKind::string)) return node().text;
  wrong_type("a string");
  return std::nullopt;
}

std::optional<std::string> JsonCursor::name() const {
  std::optional<std::string> text = string();
  if (!text || !text->empty()) return text;
  error("an empty string", "a name", "", "empty-name");
  return std::nullopt;
}

std::optional<bool> JsonCursor::boolean() const {
  if (!present_) return std::nullopt;
  if (is(JsonKind::boolean)) return node().truth;
  wrong_type("true or false");
  return std::nullopt;
}

std::optional<double> JsonCursor::number() const {
  if (!present_) return std::nullopt;
  if (is(JsonKind::number)) return node().number;
  wrong_type("a number");
  return std::nullopt;
}

std::optional<int64_t> JsonCursor::integer(int64_t least, int64_t most) const {
  if (!present_) return std::nullopt;
  const std::string expected = integer_words(least, most);
  if (!is(JsonKind::number)) {
    wrong_type(expected);
    return std::nullopt;
  }
  const Integer found = integer_in(node());
  const bool in_range = found.fits && found.value >= least && found.value <= most;
  if (in_range) return found.value;
  if (!found.whole)
    error(excerpt(), expected, "", "not-an-integer");
  else if (found.fits || most != kNoMost)
    error(excerpt(), expected, "", "out-of-range");
  else
    error(excerpt(), integer_words(least, kNoMost) + " that fits in 63 bits", "", "out-of-range");
  return std::nullopt;
}

std::optional<size_t> JsonCursor::index_of(const std::vector<std::string>& words,
                                           std::string_view what) const {
  if (!present_) return std::nullopt;
  if (!is(JsonKind::string)) {
    wrong_type("one of " + quoted_list(words, words.size()));
    return std::nullopt;
  }
  const auto at = std::find(words.begin(), words.end(), node().text);
  if (at != words.end()) return static_cast<size_t>(at - words.begin());
  unknown(what, node().text, words);
  return std::nullopt;
}

std::vector<JsonCursor> JsonCursor::elements() const {
  std::vector<JsonCursor> cursors;
  if (!present_) return cursors;
  if (!is(JsonKind::array)) {
    wrong_type("an array");
    return cursors;
  }
  for (const uint32_t id : document_->children(node_))
    cursors.push_back(JsonCursor(document_, sink_, id, true));
  return cursors;
}

JsonObject JsonCursor::object() const {
  if (present_ && !is(JsonKind::object)) wrong_type("an object");
  return JsonObject(*this);
}

JsonObject::JsonObject(JsonCursor cursor) : cursor_(cursor) {
  if (!cursor_.is(JsonKind::object)) cursor_.present_ = false;
}

JsonObject::~JsonObject() {
  if (!cursor_ || all_asked_) return;
  for (const JsonCursor& member : children()) {
    const bool asked = std::find(asked_.begin(), asked_.end(), member.key()) != asked_.end();
    if (!asked && !is_comment(member.key())) member.unknown("key", member.key(), asked_);
  }
}

JsonCursor JsonObject::absent() const {
  return JsonCursor(cursor_.document_, cursor_.sink_, cursor_.node_, false);
}

JsonCursor JsonObject::optional(std::string_view key) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
  if (!cursor_) return absent();
  const std::optional<uint32_t> id = cursor_.document_->find(cursor_.node_, key);
  return id ? JsonCursor(cursor_.document_, cursor_.sink_, *id, true) : absent();
}

JsonCursor JsonObject::required(std::string_view key) {
  const JsonCursor found = optional(key);
  if (cursor_ && !found) report_missing(key);
  return found;
}

JsonCursor JsonObject::nullable(std::string_view key) {
  const JsonCursor found = optional(key);
  return found.is(JsonKind::null) ? absent() : found;
}

void JsonObject::report_missing(std::string_view key) const {
  std::vector<std::string> present;
  for (const JsonCursor& member : children()) present.push_back(member.key());
  const std::string expected = present.empty() ? "it here" : "it beside " + quoted_list(present);
  cursor_.error(fmt::format("no key {}", quoted(key)), expected, "", "missing-key");
}

std::vector<JsonCursor> JsonObject::children() const {
  std::vector<JsonCursor> cursors;
  if (!cursor_) return cursors;
  for (const uint32_t id : cursor_.document_->children(cursor_.node_))
    cursors.push_back(JsonCursor(cursor_.document_, cursor_.sink_, id, true));
  return cursors;
}

std::vector<JsonCursor> JsonObject::members() {
  ignore_rest();
  std::vector<JsonCursor> named;
  for (const JsonCursor& member : children()) {
    const std::string key = member.key();
    if (key.substr(0, 1) != "$" && key.substr(0, 2) != "//") named.push_back(member);
  }
  return named;
}

}  // namespace s2t
