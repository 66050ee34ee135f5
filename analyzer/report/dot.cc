#include "analyzer/report/dot.h"

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

}  // namespace s2t
