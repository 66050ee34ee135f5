// Saying where a text stops being JSON, what stands there and what should.
//
// Known here: the grammar around one broken token. Not known here: how it was found.
#pragma once

#include <cstddef>
#include <string_view>

#include "analyzer/base/diagnostics.h"

namespace s2t {

// What the reader had understood before the token that it could not read.
struct SyntaxBreak {
  enum class Inside { document, array, object };
  enum class Token { unexpected, bad_string, bad_number };

  size_t start = 0;  // offset of the token; the size of the text if the file ended
  size_t end = 0;    // one past the last byte that was read of it
  Inside inside = Inside::document;
  bool after_key = false;  // a key was read, its value was not
  bool root_done = false;  // the document's value was complete
  Token token = Token::unexpected;
};

Diagnostic explain_syntax(std::string_view text, const SyntaxBreak& at);

}  // namespace s2t
