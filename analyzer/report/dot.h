// Text for the languages of Graphviz and Mermaid.
#pragma once

#include <string>
#include <string_view>

namespace s2t {

// "text" in quotes, escaped for Graphviz; a line break stays one.
std::string dot_string(std::string_view text);

// "text" in quotes, for Mermaid: what its grammar or HTML reserves becomes an entity code.
std::string mermaid_string(std::string_view text);

// At most 1,000 code points and an ellipsis: Graphviz reads no string of more than 16,384 bytes.
std::string capped(std::string_view text);

// Why Mermaid refuses a text of ours unless its configuration is changed (maxTextSize, maxEdges of
// its version 11); "" if it does not.
std::string mermaid_excess(std::string_view text);

}  // namespace s2t
