#include "analyzer/cli/launch_words.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

namespace s2t {
namespace {

// What variables of flags are called.
constexpr std::string_view kNamesOfFlags[] = {"arg", "opt", "flag", "param", "extra", "@", "*"};

}  // namespace

std::optional<int64_t> whole(const std::string& text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < 0) return std::nullopt;
  return n;
}

std::string without_underscores(const std::string& text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] != '_')
      digits += text[i];
    else if (i == 0 || i + 1 == text.size() || text[i + 1] == '_')
      return text;
  return digits.find_first_not_of("0123456789") == std::string::npos ? digits : text;
}

bool same_number(const std::string& value, std::string_view own) {
  if (value == own) return true;
  char *end = nullptr, *own_end = nullptr;
  const std::string text(own);
  const double x = std::strtod(value.c_str(), &end), y = std::strtod(text.c_str(), &own_end);
  return !value.empty() && !text.empty() && *end == 0 && *own_end == 0 && x == y;
}

bool is_named_as_flags(const std::string& word) {
  std::string name;
  for (const char c : word) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::any_of(std::begin(kNamesOfFlags), std::end(kNamesOfFlags),
                     [&](std::string_view part) { return name.find(part) != name.npos; });
}

}  // namespace s2t
