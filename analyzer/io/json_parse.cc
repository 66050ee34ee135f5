// Builds the flat tree from the events of nlohmann's parser, the only place that knows it.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "analyzer/base/text.h"
#include "analyzer/io/json_document.h"
#include "analyzer/io/json_syntax.h"
#include "analyzer/io/text_position.h"

namespace s2t {
namespace {

struct Progress {
  const char* at = nullptr;  // first byte that was not read yet
  uint32_t line = 1;
};

// An input iterator that tells how far the parser has come, which the parser itself does not.
class TrackedBytes {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackedBytes(const char* at, Progress* progress) : at_(at), progress_(progress) {}
  reference operator*() const { return *at_; }
  TrackedBytes& operator++() {
    if (*at_ == '\n') ++progress_->line;
    progress_->at = ++at_;
    return *this;
  }
  TrackedBytes operator++(int) {
    const TrackedBytes old = *this;
    ++*this;
    return old;
  }
  bool operator==(const TrackedBytes& other) const { return at_ == other.at_; }
  bool operator!=(const TrackedBytes& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  Progress* progress_;
};

using Duplicate = std::pair<uint32_t, uint32_t>;  // two members of one object with equal keys

class TreeBuilder {
 public:
  TreeBuilder(std::string_view text, const Progress& progress, Diagnostics& sink,
              const JsonLimits& limits)
      : text_(text), progress_(progress), sink_(sink), limits_(limits) {}

  // The interface that nlohmann's sax_parse calls; false stops it.
  bool null() { return add(JsonKind::null) != nullptr; }
  bool boolean(bool value) {
    JsonNode* node = add(JsonKind::boolean);
    if (node) node->truth = value;
    return node != nullptr;
  }
  bool number_integer(int64_t value) {
    return add_number(std::to_string(value), static_cast<double>(value));
  }
  bool number_unsigned(uint64_t value) {
    return add_number(std::to_string(value), static_cast<double>(value));
  }
  bool number_float(double value, const std::string& digits) { return add_number(digits, value); }
  bool string(std::string& value) {
    JsonNode* node = add(JsonKind::string);
    if (node) node->text = std::move(value);
    return node != nullptr;
  }
  bool binary(std::vector<uint8_t>&) { return false; }  // JSON text has none
  bool start_object(size_t) { return open(JsonKind::object); }
  bool start_array(size_t) { return open(JsonKind::array); }
  bool key(std::string& key) {
    key_ = std::move(key);
    key_line_ = progress_.line;
    after_key_ = true;
    seen_ = read();
    return true;
  }
  bool end_object() {
    note_duplicates(open_.back());
    return close();
  }
  bool end_array() { return close(); }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& e) {
    const std::string_view what = e.what();
    const auto says = [&](std::string_view words) {
      return what.find(words) != std::string_view::npos;
    };
    SyntaxBreak at = here(position);
    if (e.id == 406)  // the parser's number for a double that overflows
      return refuse(at.start,
                    fmt::format("the number {} is too large",
                                text_.substr(at.start, std::min<size_t>(at.end - at.start, 40))),
                    "at most 1.8e308", "number-too-large");
    if (says("invalid string")) at.token = SyntaxBreak::Token::bad_string;
    if (says("invalid number")) at.token = SyntaxBreak::Token::bad_number;
    sink_.add(explain_syntax(text_, at));
    return false;
  }

  // The parser takes a NUL byte for the end of the input.
  bool reached_the_end() {
    const size_t at = read();
    if (at == text_.size() && (text_.empty() || text_.back() != '\0')) return true;
    sink_.add(explain_syntax(text_, here(at)));
    return false;
  }

  std::vector<JsonNode> take() { return std::move(nodes_); }
  const std::vector<Duplicate>& duplicates() const { return duplicates_; }

 private:
  // The state around the token that ends before offset `end`, which no event told of.
  SyntaxBreak here(size_t end) const {
    SyntaxBreak at;
    at.end = end;
    at.start = std::min(seen_, end - 1);
    while (at.start < std::min(end - 1, text_.size()) && is_between(text_[at.start])) ++at.start;
    at.after_key = after_key_;
    at.root_done = !nodes_.empty() && open_.empty();
    if (!open_.empty())
      at.inside = nodes_[open_.back()].kind == JsonKind::array ? SyntaxBreak::Inside::array
                                                               : SyntaxBreak::Inside::object;
    return at;
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_between(char c) {
    return std::string_view(" \t\r\n,:").find(c) != std::string_view::npos;
  }

  bool refuse(size_t offset, std::string found, std::string expected, std::string slug) {
    sink_.add({line_and_column(text_, offset), std::move(found), std::move(expected), "",
               std::move(slug)});
    return false;
  }

  size_t read() const { return static_cast<size_t>(progress_.at - text_.data()); }

  JsonNode* add(JsonKind kind) {
    if (nodes_.size() >= limits_.values) {
      refuse(read() - 1, "too many values",
             fmt::format("at most {} in one file", commas(limits_.values)), "too-many-values");
      return nullptr;
    }
    JsonNode node;
    node.kind = kind;
    node.end = static_cast<uint32_t>(nodes_.size()) + 1;
    if (!open_.empty()) {
      node.parent = open_.back();
      node.position = nodes_[node.parent].children++;
    }
    if (after_key_) {
      node.key = std::move(key_);
      node.line = key_line_;
      after_key_ = false;
    }
    seen_ = read();
    nodes_.push_back(std::move(node));
    return &nodes_.back();
  }

  bool add_number(std::string digits, double value) {
    JsonNode* node = add(JsonKind::number);
    if (!node) return false;
    node->text = std::move(digits);
    node->number = value;
    const bool ends_the_file = seen_ == text_.size() && is_digit(text_.back());
    if (!ends_the_file) --seen_;  // the byte behind it was read too
    return true;
  }

  bool open(JsonKind kind) {
    if (open_.size() >= limits_.depth)
      return refuse(read() - 1, "arrays and objects nested too deeply",
                    fmt::format("at most {} levels", limits_.depth), "nested-too-deep");
    if (!add(kind)) return false;
    open_.push_back(static_cast<uint32_t>(nodes_.size()) - 1);
    return true;
  }

  bool close() {
    nodes_[open_.back()].end = static_cast<uint32_t>(nodes_.size());
    open_.pop_back();
    seen_ = read();
    return true;
  }

  void note_duplicates(uint32_t object) {
    std::vector<uint32_t> members;
    for (uint32_t id = object + 1; id < nodes_.size(); id = nodes_[id].end) members.push_back(id);
    std::stable_sort(members.begin(), members.end(),
                     [&](uint32_t a, uint32_t b) { return nodes_[a].key < nodes_[b].key; });
    for (size_t i = 1; i < members.size(); ++i) {
      const JsonNode& first = nodes_[members[i - 1]];
      const JsonNode& second = nodes_[members[i]];
      if (first.key == second.key && duplicates_.size() < Diagnostics::kMost)
        duplicates_.emplace_back(members[i - 1], members[i]);
    }
  }

  std::string_view text_;
  const Progress& progress_;
  Diagnostics& sink_;
  const JsonLimits& limits_;
  std::vector<JsonNode> nodes_;
  std::vector<uint32_t> open_;  // arrays and objects around the current place, outermost first
  std::string key_;
  uint32_t key_line_ = 0;
  bool after_key_ = false;
  size_t seen_ = 0;  // offset after the last token that had an event
  std::vector<Duplicate> duplicates_;
};

void report(const std::vector<Duplicate>& duplicates, const JsonDocument& document,
            Diagnostics& sink) {
  for (const auto& [first, second] : duplicates)
    sink.add({document.pointer(second),
              fmt::format("key {} stands on line {} and again on line {}",
                          s2t::quoted(document.node(second).key), document.node(first).line,
                          document.node(second).line),
              "it once", "Rename or remove one.", "duplicate-key"});
}

}  // namespace

std::optional<JsonDocument> parse_json(std::string_view text, Diagnostics& sink,
                                       const JsonLimits& limits) {
  Progress progress{text.data(), 1};
  TreeBuilder builder(text, progress, sink, limits);
  const TrackedBytes first(text.data(), &progress);
  const TrackedBytes last(text.data() + text.size(), &progress);
  const bool parsed = nlohmann::json::sax_parse(first, last, &builder);
  if (!parsed || !builder.reached_the_end()) return std::nullopt;
  JsonDocument document(builder.take());
  report(builder.duplicates(), document, sink);
  return document;
}

}  // namespace s2t
