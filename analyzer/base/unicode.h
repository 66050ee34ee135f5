// Bytes as UTF-8 text: what is well formed, and which characters no eye sees although a terminal, a
// browser or the eye's own order obeys them.
//
// Not known here: escapes of a language (json_writer.h, xml.h, dot.h), widths (text.h).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace s2t {

// Bytes of the well-formed sequence at `at` (Unicode 15, table 3-7), 0 if there is none.
size_t utf8_length(std::string_view text, size_t at);

// The text with every byte that is not valid UTF-8 replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

// "\u202e" if the well-formed `character` is one of those: controls, ends of lines and paragraphs,
// marks that turn the direction of text (Bidi_Control in PropList.txt), and the two noncharacters
// that no XML may hold. "" for every other.
std::string written_out(std::string_view character);

// The text with `open` and `close` around each stretch of letters that run from right to left and of
// spaces between them: without, they would reorder the numbers that follow.
std::string isolated(std::string_view text, std::string_view open, std::string_view close);

// One line that is safe to show: valid UTF-8, with "\n", "\t" and "\u202e" written out.
std::string one_line(std::string_view text);

}  // namespace s2t
