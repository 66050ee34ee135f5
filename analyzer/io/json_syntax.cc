#include "analyzer/io/json_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "analyzer/base/text.h"
#include "analyzer/io/text_position.h"

namespace s2t {
namespace {

using Inside = SyntaxBreak::Inside;

constexpr char kNothing = '\0';

// The last byte before `offset` that is no white space.
char byte_before(std::string_view text, size_t offset) {
  const size_t at = text.substr(0, offset).find_last_not_of(" \t\r\n");
  return at == std::string_view::npos ? kNothing : text[at];
}

std::string expectation(const SyntaxBreak& at, char before) {
  if (at.root_done) return "the end of the file";
  if (at.after_key) return before == ':' ? "a value" : "\":\"";
  if (at.inside == Inside::document) return "a value";
  if (at.inside == Inside::array) {
    if (before == '[') return "a value or \"]\"";
    return before == ',' ? "a value" : "\",\" or \"]\"";
  }
  if (before == '{') return "a key in double quotes or \"}\"";
  return before == ',' ? "a key in double quotes" : "\",\" or \"}\"";
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '+' ||
         c == '-';
}

// The word at `start`, or the single code point there.
std::string_view token_at(std::string_view text, size_t start) {
  size_t end = start;
  while (end < text.size() && is_word(text[end]) && end - start < 32) ++end;
  if (end > start) return text.substr(start, end - start);
  if (text[start] == '"') {
    const size_t close = text.find('"', start + 1);
    if (close != std::string_view::npos && close - start < 32)
      return text.substr(start, close - start + 1);
  }
  end = start + 1;
  while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
  return text.substr(start, end - start);
}

struct Slip {
  std::string_view token;
  std::string_view advice;
};

// Habits from other notations. Anything else gets no advice.
constexpr Slip kSlips[] = {
    {"'", "JSON strings take double quotes."},
    {"/", "JSON has no comments; use a \"comment\" key."},
    {"#", "JSON has no comments; use a \"comment\" key."},
    {"True", "JSON writes true."},
    {"False", "JSON writes false."},
    {"None", "JSON writes null."},
    {"NaN", "JSON has no NaN."},
    {"nan", "JSON has no NaN."},
    {"Infinity", "JSON has no infinity."},
    {"-Infinity", "JSON has no infinity."},
    {"inf", "JSON has no infinity."},
};

std::string advice_for(std::string_view token, char before) {
  if ((token == "}" || token == "]") && before == ',') return "Remove the comma before it.";
  const auto* slip = std::find_if(std::begin(kSlips), std::end(kSlips),
                                  [&](const Slip& s) { return s.token == token; });
  return slip == std::end(kSlips) ? "" : std::string(slip->advice);
}

std::string shown(std::string_view token) {
  if (token.size() > 1 && token.front() == '"') return std::string(token);
  return quoted(token);
}

Diagnostic bad_string(std::string_view text, const SyntaxBreak& at) {
  const char last = text[at.end - 1];
  if (static_cast<unsigned char>(last) >= 0x80)
    return {line_and_column(text, at.end - 1), "a byte that is not UTF-8", "UTF-8 text", "",
            "invalid-utf8"};
  if (last == '\n' || last == '\r')
    return {line_and_column(text, at.start), "a string that does not end on its line",
            "its closing quote", "Write a line break as \\n.", "json-syntax"};
  if (static_cast<unsigned char>(last) < 0x20)
    return {line_and_column(text, at.end - 1),
            fmt::format("the control character 0x{:02X} in a string", static_cast<unsigned>(last)),
            fmt::format("it written as \\u{:04x}", static_cast<unsigned>(last)), "", "json-syntax"};
  const size_t backslash = text.substr(0, at.end).rfind('\\');
  const size_t escape = backslash == std::string_view::npos ? at.start : backslash;
  const size_t end = last == '"' ? at.end - 1 : at.end;  // half a surrogate pair ends the string
  return {line_and_column(text, escape),
          fmt::format("the escape {} in a string", text.substr(escape, end - escape)),
          "one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t, or \\u with four hexadecimal digits",
          "A backslash itself is written \\\\.", "json-syntax"};
}

Diagnostic ended(std::string_view text, const SyntaxBreak& at, char before) {
  const std::string where = line_and_column(text, text.size());
  if (at.token == SyntaxBreak::Token::bad_string)
    return {where, "the file ends inside a string", "its closing quote", "", "json-truncated"};
  if (at.token == SyntaxBreak::Token::bad_number)
    return {where, "the file ends inside a number", "a digit", "", "json-truncated"};
  if (at.start < text.size())
    return {where, fmt::format("the file ends inside {}", shown(token_at(text, at.start))),
            expectation(at, before), "", "json-truncated"};
  return {where, "the file ends here", expectation(at, before), "", "json-truncated"};
}

}  // namespace

Diagnostic explain_syntax(std::string_view text, const SyntaxBreak& at) {
  const char before = byte_before(text, at.start);
  if (at.end > text.size() || at.start >= text.size()) return ended(text, at, before);
  if (at.token == SyntaxBreak::Token::bad_string) return bad_string(text, at);
  const std::string_view token = token_at(text, at.start);
  const std::string where = line_and_column(text, at.start);
  if (at.token == SyntaxBreak::Token::bad_number)
    return {where, fmt::format("{} is not a number", shown(token)), "digits",
            advice_for(token, before), "json-syntax"};
  return {where, fmt::format("unexpected {}", shown(token)), expectation(at, before),
          advice_for(token, before), "json-syntax"};
}

}  // namespace s2t
