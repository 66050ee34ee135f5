// Small words about words: joining, digit grouping, quoting and "did you mean".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace s2t {

std::string join(std::span<const std::string> parts, std::string_view separator);

// "a b" -> a, b; blanks in a row are one. "a-b-" by '-' -> a, b and "": one part more than there are
// separators.
std::vector<std::string> words_of(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);

// Whether `word` is one of `words`, which blanks part.
bool among(std::string_view word, std::string_view words);

// 1048576 -> "1,048,576"
std::string commas(uint64_t n);

// "h_1" with quotes; inner quotes, backslashes and control characters are escaped.
std::string quoted(std::string_view text);

// Of the first 20,000 candidates the one closest to `word`, if it is close enough to be a slip of
// the finger, else "".
std::string closest(std::string_view word, std::span<const std::string> candidates);

// `Did you mean "tp"?` or "" if nothing is close.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

// " <lead> 3 more" when there are four of something of which one was told; "" if there is but one.
std::string and_more(std::string_view lead, size_t all);

// `"a", "b"`: the candidates quoted, at most `limit` of them, then "and 3 more".
std::string quoted_list(std::span<const std::string> candidates, size_t limit = 8);

// Terminal columns that UTF-8 text takes: one per code point, none for a combining mark.
size_t display_width(std::string_view text);

}  // namespace s2t
