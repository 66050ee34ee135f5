#include "analyzer/report/xml.h"

#include "analyzer/base/unicode.h"

namespace s2t {
namespace {

std::string_view entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return "";
  }
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : one_line(text)) {
    const std::string_view written = entity(c);
    out += written.empty() ? std::string_view(&c, 1) : written;
  }
  return out;
}

std::string html_text(std::string_view text) {
  return isolated(xml_escaped(text), "<bdi>", "</bdi>");
}

std::string svg_text(std::string_view text) {
  return isolated(xml_escaped(text), "<tspan unicode-bidi=\"isolate\">", "</tspan>");
}

}  // namespace s2t
