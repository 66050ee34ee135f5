#include "analyzer/report/xml.h"

namespace s2t {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

unsigned char byte_at(std::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Length of the well-formed UTF-8 sequence that starts at `i`; 0 if there is none.
size_t sequence_length(std::string_view text, size_t i) {
  const unsigned char lead = byte_at(text, i);
  const size_t n = lead < 0x80                    ? 1
                   : lead >= 0xC2 && lead <= 0xDF ? 2
                   : lead >= 0xE0 && lead <= 0xEF ? 3
                   : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                  : 0;
  if (n == 0 || i + n > text.size()) return 0;
  for (size_t k = 1; k < n; ++k)
    if ((byte_at(text, i + k) & 0xC0) != 0x80) return 0;
  if (n == 1) return 1;
  const unsigned char second = byte_at(text, i + 1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool outside = (lead == 0xED && second >= 0xA0) || (lead == 0xF4 && second >= 0x90);
  const bool noncharacter =
      lead == 0xEF && second == 0xBF && byte_at(text, i + 2) >= 0xBE;  // U+FFFE, U+FFFF
  return overlong || outside || noncharacter ? 0 : n;
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t n = sequence_length(text, i);
    const char c = text[i];
    if (n == 0 || (n == 1 && byte_at(text, i) < 0x20 && c != '\n' && c != '\t' && c != '\r'))
      out += kReplacement;
    else if (n > 1)
      out += text.substr(i, n);
    else if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else
      out += c == '\n' || c == '\t' || c == '\r' ? ' ' : c;
    i += n == 0 ? 1 : n;
  }
  return out;
}

}  // namespace s2t
