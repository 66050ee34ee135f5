#include "analyzer/io/text_position.h"

#include <algorithm>

namespace s2t {

std::string line_and_column(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const size_t last_break = before.rfind('\n');
  const size_t line_start = last_break == std::string_view::npos ? 0 : last_break + 1;
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const auto column = std::count_if(before.begin() + static_cast<ptrdiff_t>(line_start),
                                    before.end(), [](char c) { return (c & 0xC0) != 0x80; }) +
                      1;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

}  // namespace s2t
