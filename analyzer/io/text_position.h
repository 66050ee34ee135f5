// Where a byte of a text file is, as an editor shows it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace s2t {

// "line 3, column 7" of the byte at `offset`; both count from 1, a column is one code point.
// An offset at or past the end is the place where the next byte would stand.
std::string line_and_column(std::string_view text, size_t offset);

}  // namespace s2t
