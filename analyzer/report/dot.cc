#include "analyzer/report/dot.h"

#include <fmt/format.h>

#include <utility>

#include "analyzer/base/text.h"
#include "analyzer/report/json_writer.h"

namespace s2t {
namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

// U+FFFE and U+FFFF, which no XML may hold, in the words of JSON.
std::string without_noncharacters(std::string text) {
  for (const auto& [raw, written] :
       {std::pair{"\xEF\xBF\xBE", "\\ufffe"}, std::pair{"\xEF\xBF\xBF", "\\uffff"}})
    for (size_t at = text.find(raw); at != std::string::npos; at = text.find(raw, at))
      text.replace(at, 3, written);
  return text;
}

}  // namespace

std::string dot_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : without_noncharacters(valid_utf8(text))) {
    if (c == '\n')
      out += "\\n";
    else if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (c == '&')
      out += "&amp;";  // Graphviz reads entities in any label
    else
      out += is_control(c) ? ' ' : c;
  }
  return out + "\"";
}

std::string mermaid_string(std::string_view text) {
  constexpr std::string_view kReserved = "\"#&<>;`\\[]{}()|%*_~";
  std::string out = "\"";
  for (const char c : without_noncharacters(valid_utf8(text))) {
    if (c == '\n')
      out += "<br/>";
    else if (kReserved.find(c) != std::string_view::npos && c != '_' && c != '(' && c != ')')
      out += "#" + std::to_string(static_cast<int>(c)) + ";";
    else
      out += is_control(c) ? ' ' : c;
  }
  return out + "\"";
}

std::string capped(std::string_view text) {
  constexpr size_t kMost = 1000;  // code points: five bytes each at most, in DOT
  size_t points = 0;
  for (size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80 && ++points > kMost)
      return valid_utf8(text.substr(0, i)) + "\u2026";
  return text.size() <= 4 * kMost ? std::string(text) : capped(valid_utf8(text));
}

std::string mermaid_excess(std::string_view text) {
  constexpr size_t kMostText = 50'000, kMostEdges = 500;
  size_t edges = 0;
  for (const std::string_view link : {" -->", " -.->", " ---", " -.-|"})
    for (size_t at = text.find(link); at != std::string_view::npos; at = text.find(link, at + 1))
      ++edges;
  std::string excess;
  if (text.size() > kMostText)
    excess = fmt::format("{} characters, by default {} at most (maxTextSize)", commas(text.size()),
                         commas(kMostText));
  if (edges > kMostEdges)
    excess += fmt::format("{}{} edges, by default {} at most (maxEdges)",
                          excess.empty() ? "" : "; ", edges, kMostEdges);
  return excess;
}

}  // namespace s2t
