// Text for XML and SVG.
//
// Known here: which characters XML forbids or reserves. Not known here: what the text means.
#pragma once

#include <string>
#include <string_view>

namespace s2t {

// Safe as element text and as attribute value in either kind of quotes. Characters that XML cannot
// hold (most control characters, broken UTF-8) become U+FFFD; line breaks and tabs become spaces.
std::string xml_escaped(std::string_view text);

}  // namespace s2t
