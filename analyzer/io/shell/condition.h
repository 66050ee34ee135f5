// Questions of a shell that the script itself answers: `[ $TP -gt 1 ]`, `[[ $SIZE == 8b* ]]`, the
// patterns of a case. An answer is given only if every word that it hangs on is known.
//
// Not known here: files, and what a program answers.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/io/shell/expansion.h"

namespace s2t {

struct ShellOperand {
  ShellText text;
  bool pattern = false;  // `*` in it stands for any letters
};

// A word of [[ ]] or of a case.
ShellOperand operand_of(const ShellWord& word, ShellExpansion expansion);
std::optional<bool> matches(const ShellText& text, const ShellOperand& pattern);

// The words in the brackets. nullopt: the script does not say.
std::optional<bool> tested(const std::vector<ShellOperand>& words);

}  // namespace s2t
