#include "analyzer/base/unicode.h"

#include <fmt/format.h>

#include <algorithm>

namespace s2t {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Range {
  unsigned first, last;
  bool has(unsigned x) const { return first <= x && x <= last; }
};

constexpr Range kUnseen[] = {
    {0x00, 0x1F},     {0x7F, 0x9F},      // C0 and C1
    {0x061C, 0x061C}, {0x200E, 0x200F},  // marks
    {0x2028, 0x2029},                    // ends of line and paragraph
    {0x202A, 0x202E},                    // embeddings and overrides
    {0x2066, 0x2069},                    // isolates
    {0xFFFE, 0xFFFF},
};

// Hebrew, Arabic and their neighbours, presentation forms, and the old scripts of plane 1.
constexpr Range kFromRightToLeft[] = {
    {0x0590, 0x08FF}, {0xFB1D, 0xFDFF}, {0xFE70, 0xFEFE}, {0x10800, 0x10FFF}, {0x1E800, 0x1EFFF}};

unsigned code_point(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  unsigned point = byte(0) & (0xFFu >> (character.size() + 1));
  for (size_t i = 1; i < character.size(); ++i) point = point << 6 | (byte(i) & 0x3Fu);
  return point;
}

template <size_t n>
bool is_of(const Range (&ranges)[n], unsigned point) {
  return std::any_of(ranges, ranges + n, [&](const Range& range) { return range.has(point); });
}

Range second_byte(unsigned lead) {
  switch (lead) {
    case 0xE0:
      return {0xA0, 0xBF};
    case 0xED:
      return {0x80, 0x9F};
    case 0xF0:
      return {0x90, 0xBF};
    case 0xF4:
      return {0x80, 0x8F};
    default:
      return {0x80, 0xBF};
  }
}

}  // namespace

size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0 || !second_byte(lead).has(byte(1))) return 0;
  for (size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return length;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    out += length == 0 ? kReplacement : text.substr(i, length);
    i += std::max<size_t>(length, 1);
  }
  return out;
}

std::string written_out(std::string_view character) {
  const unsigned point = code_point(character);
  if (!is_of(kUnseen, point)) return "";
  return point == '\n' ? "\\n" : point == '\t' ? "\\t" : fmt::format("\\u{:04x}", point);
}

std::string isolated(std::string_view text, std::string_view open, std::string_view close) {
  std::string out, spaces;  // behind a stretch that may go on
  bool inside = false;
  const auto leave = [&] {
    if (inside) (out += close) += spaces;
    spaces.clear();
    inside = false;
  };
  for (size_t i = 0; i < text.size();) {
    const std::string_view character = text.substr(i, std::max<size_t>(utf8_length(text, i), 1));
    i += character.size();
    if (character.size() > 1 && is_of(kFromRightToLeft, code_point(character))) {
      if (!inside) out += open;
      (out += spaces) += character;
      spaces.clear();
      inside = true;
    } else if (inside && character == " ") {
      spaces += character;
    } else {
      leave();
      out += character;
    }
  }
  leave();
  return out;
}

std::string one_line(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    const std::string_view character = length == 0 ? kReplacement : text.substr(i, length);
    const std::string written = written_out(character);
    out += written.empty() ? character : std::string_view(written);
    i += std::max<size_t>(length, 1);
  }
  return out;
}

}  // namespace s2t
