// Reading a JSON value together with its place, so that no reader can forget the location.
//
// A cursor is the only way to get at a value. Every reader records what is wrong (the JSON
// pointer, what was found, what is expected) and returns nullopt; none throws. A cursor may be
// absent (an optional key that is not there, a required one that was reported): all its readers
// return nullopt and say nothing, so a reader can read on and find the other errors.
//
//     JsonObject axis = cursor.object();
//     const auto name = axis.required("name").name();
//     const auto size = axis.required("size").integer(1, kMostRanks);
//     const bool slow = axis.optional("slow").boolean().value_or(false);
//
// Not known here: the meaning of any key. A cursor must not outlive its document or its sink.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/base/diagnostics.h"
#include "analyzer/io/json_document.h"

namespace s2t {

class JsonObject;

// One row of a table of words that a string may be.
template <class T>
struct Word {
  std::string_view word;
  T value;
};

class JsonCursor {
 public:
  static constexpr int64_t kNoMost = std::numeric_limits<int64_t>::max();

  JsonCursor(const JsonDocument& document, Diagnostics& sink);  // the whole document

  bool present() const { return present_; }
  explicit operator bool() const { return present_; }
  bool is(JsonKind kind) const;  // false if absent
  std::string key() const;       // in its object; "" for an element or the whole document
  std::string pointer() const;   // of the object that lacks it if absent
  std::string excerpt() const;   // what stands there, shortened
  Diagnostics& sink() const { return *sink_; }

  std::optional<std::string> string() const;
  std::optional<std::string> name() const;  // a string that is not empty
  std::optional<bool> boolean() const;
  std::optional<double> number() const;
  // 8, 8.0 and 8e0 are integers, 8.5 and "8" are not; least and most (>= 0) are both allowed.
  std::optional<int64_t> integer(int64_t least, int64_t most = kNoMost) const;
  // The row whose word stands here; `what` names the choice: "schedule".
  template <class T>
  std::optional<T> one_of(std::span<const Word<T>> table, std::string_view what) const;

  std::vector<JsonCursor> elements() const;  // of an array; none if it is not one
  JsonObject object() const;

  // Says what is wrong here.
  void error(std::string found, std::string expected, std::string advice, std::string slug) const;
  void wrong_type(std::string expected) const;
  // `unknown tensor "h_1"; expected one of "h0", "h1". Did you mean "h1"? [unknown-tensor]`
  void unknown(std::string_view what, std::string_view name,
               std::span<const std::string> known) const;

 private:
  friend class JsonObject;
  JsonCursor(const JsonDocument* document, Diagnostics* sink, uint32_t node, bool present)
      : document_(document), sink_(sink), node_(node), present_(present) {}

  const JsonNode& node() const { return document_->node(node_); }
  std::optional<size_t> index_of(const std::vector<std::string>& words,
                                 std::string_view what) const;

  const JsonDocument* document_;
  Diagnostics* sink_;
  uint32_t node_;  // the object that lacks it if absent
  bool present_;
};

// An object while it is read. When it goes out of scope, every key that nobody asked for is
// reported as unknown, except "description", "comment" and those that begin with "$" or "//".
class JsonObject {
 public:
  explicit JsonObject(JsonCursor cursor);
  ~JsonObject();
  JsonObject(const JsonObject&) = delete;
  JsonObject& operator=(const JsonObject&) = delete;

  const JsonCursor& cursor() const { return cursor_; }

  JsonCursor required(std::string_view key);
  JsonCursor optional(std::string_view key);
  JsonCursor nullable(std::string_view key);  // null counts as absent

  // All members, for objects whose keys are free names.
  std::vector<JsonCursor> members();
  void ignore_rest() { all_asked_ = true; }

 private:
  JsonCursor absent() const;
  std::vector<JsonCursor> children() const;
  void report_missing(std::string_view key) const;

  JsonCursor cursor_;  // absent if it is no object
  std::vector<std::string> asked_;
  bool all_asked_ = false;
};

template <class T>
std::optional<T> JsonCursor::one_of(std::span<const Word<T>> table, std::string_view what) const {
  std::vector<std::string> words;
  for (const Word<T>& row : table) words.emplace_back(row.word);
  const std::optional<size_t> row = index_of(words, what);
  if (!row) return std::nullopt;
  return table[*row].value;
}

}  // namespace s2t
