#include "analyzer/report/json_writer.h"

#include <fmt/format.h>

#include <cmath>

#include "analyzer/base/diagnostics.h"

namespace s2t {
namespace {

constexpr size_t kFlush = size_t{1} << 16;

struct Range {
  unsigned least, most;
};

// Bytes of the well-formed UTF-8 sequence at `at`, 0 if there is none (Unicode 15, table 3-7).
size_t sequence_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0) return 0;
  const Range second = lead == 0xE0   ? Range{0xA0, 0xBF}
                       : lead == 0xED ? Range{0x80, 0x9F}
                       : lead == 0xF0 ? Range{0x90, 0xBF}
                       : lead == 0xF4 ? Range{0x80, 0x8F}
                                      : Range{0x80, 0xBF};
  if (byte(1) < second.least || byte(1) > second.most) return 0;
  for (size_t i = 2; i < length; ++i)
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  return length;
}

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\r':
      out += "\\r";
      return;
    default:
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
        out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
      else
        out += c;
  }
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (size_t i = 0; i < text.size();) {
    const size_t length = sequence_length(text, i);
    if (length == 0)
      out += "\xEF\xBF\xBD";
    else if (length == 1)
      append_escaped(out, text[i]);
    else
      out.append(text.substr(i, length));
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

std::string valid_utf8(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = sequence_length(text, i);
    if (length == 0)
      out += "\xEF\xBF\xBD";
    else
      out.append(text.substr(i, length));
    i += length == 0 ? 1 : length;
  }
  return out;
}

}  // namespace s2t
