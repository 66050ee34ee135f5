// Any bytes are read as a model and, if it is one, analyzed; only a user error may come out.
//
// Half of the mutations are on tokens (strings, numbers, punctuation) instead of bytes: they keep
// the text JSON more often, so that the readers behind the parser are reached.
//
// Built with clang's libFuzzer and the address and undefined-behaviour sanitizers. What it finds is
// kept in corpus/ as a small file, where the next run starts from it.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/analyze.h"
#include "analyzer/base/diagnostics.h"
#include "analyzer/io/model_json.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

std::vector<std::string> tokens_of(std::string_view text) {
  std::vector<std::string> tokens;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (text[i] == '"') {
      while (end < text.size() && text[end] != '"') ++end;
      end = std::min(end + 1, text.size());
    } else {
      while (end < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) &&
             std::isalnum(static_cast<unsigned char>(text[end])))
        ++end;
    }
    tokens.emplace_back(text.substr(i, end - i));
    i = end;
  }
  return tokens;
}

// Numbers at which sizes, ranks and bytes break; the rest comes from the text itself.
const char* const kNumbers[] = {
    "0", "1", "2", "3", "7", "64", "65536", "16777216", "1099511627776"};

void mutate(std::vector<std::string>& tokens, std::minstd_rand& random) {
  const auto pick = [&](size_t n) { return random() % n; };
  const size_t at = pick(tokens.size());
  const size_t other = pick(tokens.size());
  switch (pick(4)) {
    case 0:
      tokens[at] = tokens[other];
      break;
    case 1:
      tokens[at] = kNumbers[pick(std::size(kNumbers))];
      break;
    case 2:
      tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(at));
      break;
    default: {  // repeat a run of tokens elsewhere
      const size_t end = std::min(other + 1 + pick(24), tokens.size());
      const std::vector<std::string> run(tokens.begin() + static_cast<ptrdiff_t>(other),
                                         tokens.begin() + static_cast<ptrdiff_t>(end));
      tokens.insert(tokens.begin() + static_cast<ptrdiff_t>(at), run.begin(), run.end());
    }
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  std::minstd_rand random(seed + 1);
  if (size == 0 || random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<std::string> tokens = tokens_of({reinterpret_cast<const char*>(data), size});
  for (size_t n = 1 + random() % 3; n > 0 && !tokens.empty(); --n) mutate(tokens, random);
  std::string text;
  for (const std::string& token : tokens) text += token;
  text.resize(std::min(text.size(), max_size));
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    s2t::analyze(s2t::parse_model(text));
  } catch (const s2t::UserError&) {
  }
  return 0;
}
