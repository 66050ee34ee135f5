// Writes JSON straight to a stream, in the order in which it is told: no document is built, so a
// listing of any length takes no memory.
//
// An object or array is either `lines` (one member a line, indented) or on one line. Strings come
// out as valid UTF-8, in which a byte that is none is U+FFFD and what no eye sees (unicode.h) is an
// escape. Misuse (a value without a key) throws
// Fault.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace s2t {

class JsonWriter {
 public:
  enum class Form : uint8_t { inline_, lines };
  static constexpr Form kLines = Form::lines;

  explicit JsonWriter(std::ostream& out) : out_(out) {}

  JsonWriter& object(Form form = Form::inline_) { return open('{', '}', form); }
  JsonWriter& array(Form form = Form::inline_) { return open('[', ']', form); }
  JsonWriter& end();  // of the innermost object or array; the outermost also ends the line

  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool truth) { return literal(truth ? "true" : "false"); }
  JsonWriter& value(std::nullopt_t) { return literal("null"); }
  JsonWriter& value(double number);
  template <std::integral T>
  JsonWriter& value(T number) {
    return literal(std::to_string(number));
  }
  template <class T>
  JsonWriter& value(const std::optional<T>& some) {
    return some ? value(*some) : value(std::nullopt);
  }
  template <class T>
  JsonWriter& value(const std::vector<T>& list) {
    array();
    for (const T& item : list) value(item);
    return end();
  }
  template <class T>
  JsonWriter& field(std::string_view name, const T& v) {
    return key(name).value(v);
  }

 private:
  struct Level {
    char close;
    bool lines;
    bool empty = true;
    bool keyed = false;  // a key was written, its value was not
  };

  JsonWriter& open(char bracket, char close, Form form);
  JsonWriter& literal(std::string_view text);
  void before_value();
  void separate();
  void new_line();

  std::ostream& out_;
  std::string buffer_;
  std::vector<Level> levels_;
};

// "text" with quotes, escaped.
std::string json_string(std::string_view text);

}  // namespace s2t
