#include "analyzer/report/dot.h"

#include <fmt/format.h>

#include <vector>

#include "analyzer/base/text.h"
#include "analyzer/base/unicode.h"

namespace s2t {
namespace {

// Each line safe and one, with U+2068 and U+2069 around letters that run from right to left: these
// languages have no other way to say so.
std::vector<std::string> safe_lines(std::string_view text) {
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines) line = isolated(one_line(line), "\u2068", "\u2069");
  return lines;
}

std::string dot_escaped(const std::string& line) {
  std::string out;
  for (const char c : line)
    if (c == '&')
      out += "&amp;";  // Graphviz reads entities in any label
    else
      (out += c == '"' || c == '\\' ? "\\" : "") += c;
  return out;
}

std::string mermaid_escaped(const std::string& line) {
  constexpr std::string_view kReserved = "\"#&<>;`\\[]{}|%*~";
  std::string out;
  for (const char c : line)
    if (kReserved.find(c) != std::string_view::npos)
      out += "#" + std::to_string(static_cast<int>(c)) + ";";
    else
      out += c;
  return out;
}

std::string string_of(std::string_view text, std::string (*escaped)(const std::string&),
                      std::string_view line_break) {
  std::vector<std::string> lines = safe_lines(text);
  for (std::string& line : lines) line = escaped(line);
  return '"' + join(lines, line_break) + '"';
}

}  // namespace

std::string dot_string(std::string_view text) {
  return string_of(text, dot_escaped, "\\n");
}

std::string mermaid_string(std::string_view text) {
  return string_of(text, mermaid_escaped, "<br/>");
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
