#include "analyzer/io/shell/arithmetic.h"

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <utility>

namespace s2t {
namespace {

constexpr int64_t kLargest = int64_t{1} << 40;

bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// "8*(N+1)" of whole numbers and names, for which `value_of` gives a number.
class Arithmetic {
 public:
  using ValueOf = std::function<std::string(const std::string& name)>;
  Arithmetic(std::string_view text, ValueOf value_of)
      : text_(text), value_of_(std::move(value_of)) {}

  std::optional<int64_t> value() {
    const std::optional<int64_t> n = sum();
    skip_blanks();
    return at_ == text_.size() ? n : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }

  bool take(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  static std::optional<int64_t> limited(std::optional<int64_t> n) {
    return n && std::abs(*n) <= kLargest ? n : std::nullopt;
  }

  std::optional<int64_t> sum() {
    std::optional<int64_t> total = product();
    while (total) {
      const bool plus = take('+');
      if (!plus && !take('-')) break;
      const std::optional<int64_t> next = product();
      if (!next) return std::nullopt;
      total = limited(plus ? *total + *next : *total - *next);
    }
    return total;
  }

  std::optional<int64_t> product() {
    std::optional<int64_t> total = factor();
    while (total) {
      const char op = take('*') ? '*' : take('/') ? '/' : take('%') ? '%' : '\0';
      if (op == '\0') break;
      const std::optional<int64_t> next = factor();
      if (!next || (op != '*' && *next == 0)) return std::nullopt;
      if (op == '*' && *next != 0 && std::abs(*total) > kLargest / std::abs(*next))
        return std::nullopt;
      total = op == '*' ? *total * *next : op == '/' ? *total / *next : *total % *next;
    }
    return total;
  }

  std::optional<int64_t> factor() {
    if (++depth_ > 64) return std::nullopt;
    if (take('-')) {
      const std::optional<int64_t> n = factor();
      return n ? std::optional(-*n) : std::nullopt;
    }
    if (take('(')) {
      const std::optional<int64_t> inner = sum();
      return take(')') ? inner : std::nullopt;
    }
    skip_blanks();
    const size_t start = at_;
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    return number(std::string(text_.substr(start, at_ - start)));
  }

  std::optional<int64_t> number(std::string word) const {
    word = value_of_(word);
    int64_t n = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    const bool octal = word.size() > 1 && word[0] == '0';
    const bool whole = error == std::errc{} && end == word.data() + word.size() && !octal;
    return whole ? limited(n) : std::nullopt;
  }

  std::string_view text_;
  ValueOf value_of_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<int64_t> computed(std::string_view text,
                                const std::function<std::string(const std::string&)>& value_of) {
  return Arithmetic(text, value_of).value();
}

}  // namespace s2t
