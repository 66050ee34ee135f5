// Text for XML, HTML and SVG.
//
// Known here: which characters are reserved, and how each of the three sets text apart that runs
// from right to left. Not known here: what the text means.
#pragma once

#include <string>
#include <string_view>

namespace s2t {

// Safe as element text and as attribute value in either kind of quotes; what no eye sees is written
// out (unicode.h).
std::string xml_escaped(std::string_view text);

// The same as content of an element of HTML, or of a <text> of SVG.
std::string html_text(std::string_view text);
std::string svg_text(std::string_view text);

}  // namespace s2t
