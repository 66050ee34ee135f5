// Style and script of the HTML report. Nothing here knows a program.
#pragma once

#include <string_view>

namespace s2t {

extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace s2t
