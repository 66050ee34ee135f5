#include "analyzer/report/json_writer.h"

#include <fmt/format.h>

#include <cmath>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/unicode.h"

namespace s2t {
namespace {

constexpr size_t kFlush = size_t{1} << 16;

void append_escaped(std::string& out, std::string_view character) {
  const char c = character.front();
  if (c == '"' || c == '\\')
    (out += '\\') += c;
  else if (c >= 0x20 && c < 0x7f)  // as most are
    out += c;
  else if (c == '\r')
    out += "\\r";
  else if (const std::string written = written_out(character); !written.empty())
    out += written;
  else
    out += character;
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    if (length == 0)
      out += "\xEF\xBF\xBD";
    else
      append_escaped(out, text.substr(i, length));
    i += length == 0 ? 1 : length;
  }
  out += '"';
}

}  // namespace

JsonWriter& JsonWriter::open(char bracket, char close, Form form) {
  before_value();
  buffer_ += bracket;
  levels_.push_back({close, form == Form::lines});
  return *this;
}

JsonWriter& JsonWriter::end() {
  if (levels_.empty() || levels_.back().keyed) throw Fault("JSON closed out of place");
  const Level level = levels_.back();
  levels_.pop_back();
  if (level.lines && !level.empty) new_line();
  buffer_ += level.close;
  if (levels_.empty()) {
    buffer_ += '\n';
    out_ << buffer_;
    buffer_.clear();
  }
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  if (levels_.empty() || levels_.back().close != '}' || levels_.back().keyed)
    throw Fault("JSON key out of place");
  separate();
  append_string(buffer_, name);
  buffer_ += ": ";
  levels_.back().keyed = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  before_value();
  append_string(buffer_, text);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  return literal(std::isfinite(number) ? fmt::format("{}", number) : "null");
}

JsonWriter& JsonWriter::literal(std::string_view text) {
  before_value();
  buffer_ += text;
  return *this;
}

void JsonWriter::before_value() {
  if (levels_.empty()) return;
  Level& level = levels_.back();
  if (level.close == ']')
    separate();
  else if (!level.keyed)
    throw Fault("JSON value without a key");
  level.keyed = false;
}

void JsonWriter::separate() {
  Level& level = levels_.back();
  if (!level.empty) buffer_ += level.lines ? "," : ", ";
  level.empty = false;
  if (level.lines) new_line();
}

void JsonWriter::new_line() {
  if (buffer_.size() >= kFlush) {
    out_ << buffer_;
    buffer_.clear();
  }
  buffer_ += '\n';
  buffer_.append(2 * levels_.size(), ' ');
}

std::string json_string(std::string_view text) {
  std::string out;
  append_string(out, text);
  return out;
}

}  // namespace s2t
