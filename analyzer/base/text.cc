#include "analyzer/base/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/base/unicode.h"

namespace s2t {
namespace {

constexpr size_t kMostGuesses = 20000;  // nobody waits for more

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i) text += separator;
    text += parts[i];
  }
  return text;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words = split(text, ' ');
  std::erase(words, "");
  return words;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

bool among(std::string_view word, std::string_view words) {
  if (word.empty() || word.find(' ') != word.npos) return false;
  for (size_t at = words.find(word); at != words.npos; at = words.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' '))
      return true;
  }
  return false;
}

std::string commas(uint64_t n) {
  std::string digits = std::to_string(n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return one_line(out) + '"';
}

std::string closest(std::string_view word, std::span<const std::string> candidates) {
  if (word.empty() || word.size() > 64) return "";  // nobody misspells that much
  const size_t limit = word.size() <= 3 ? 1 : word.size() <= 9 ? 2 : 3;
  size_t best = limit + 1;
  std::string found;
  for (const std::string& candidate : candidates.first(std::min(candidates.size(), kMostGuesses))) {
    const size_t longer = std::max(word.size(), candidate.size());
    const size_t shorter = std::min(word.size(), candidate.size());
    if (candidate.empty() || candidate == word || longer - shorter > limit)
      continue;  // lengths alone differ too much
    if (longer <= 2 && word.front() != candidate.front()) continue;  // "pp" is no slip for "dp"
    const size_t d = edit_distance(word, candidate);
    if (d < best && d < longer) {
      best = d;
      found = candidate;
    }
  }
  return found;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string best = closest(word, candidates);
  return best.empty() ? "" : "Did you mean " + quoted(best) + "?";
}

std::string and_more(std::string_view lead, size_t all) {
  return all > 1 ? fmt::format("{} {} more", lead, all - 1) : "";
}

std::string quoted_list(std::span<const std::string> candidates, size_t limit) {
  std::string text;
  for (size_t i = 0; i < std::min(limit, candidates.size()); ++i) {
    if (i) text += ", ";
    text += quoted(candidates[i]);
  }
  if (candidates.size() > limit) text += fmt::format(" and {} more", candidates.size() - limit);
  return text;
}

size_t display_width(std::string_view text) {
  size_t columns = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c & 0xC0) == 0x80) continue;  // continuation byte
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0u;
    const bool combining = (c == 0xCC) || (c == 0xCD && next < 0xB0);  // U+0300 .. U+036F
    if (!combining) ++columns;
  }
  return columns;
}

}  // namespace s2t
