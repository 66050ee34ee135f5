#include "analyzer/report/dot.h"

#include <fmt/format.h>

#include "analyzer/base/text.h"
#include "analyzer/report/json_writer.h"

namespace s2t {
namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

}  // namespace

std::string dot_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : valid_utf8(text)) {
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
  for (const char c : valid_utf8(text)) {
    if (c == '\n')
      out += "<br/>";
    else if (kReserved.find(c) != std::string_view::npos && c != '_' && c != '(' && c != ')')
      out += "#" + std::to_string(static_cast<int>(c)) + ";";
    else
      out += is_control(c) ? ' ' : c;
  }
  return out + "\"";
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
