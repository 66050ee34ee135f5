// Sums of a script, $((...)) and ((...)): what they come to with the variables of this place, and
// what they set.
//
// Not known here: how a sum is computed (shell/arithmetic.h).
#pragma once

#include <string>
#include <vector>

#include "analyzer/io/shell/state.h"

namespace s2t {

// The number that an expanded sum is, after what it sets is set; open, and what it sets open too, if
// it cannot be computed. `written` is what to call it.
ShellPiece calculated(const ShellText& text, const std::string& written, ShellState& state);

// "TP *= 2, ++i" -> TP, i: what arithmetic sets.
std::vector<std::string> changed_names(const std::string& arithmetic);

}  // namespace s2t
