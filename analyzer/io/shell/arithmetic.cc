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

struct Operator {
  std::string_view sign;
  int level;  // those of a higher one bind more closely
  std::optional<int64_t> (*of)(int64_t, int64_t);
};

using Number = std::optional<int64_t>;

Number times(int64_t a, int64_t b) {
  if (b != 0 && std::abs(a) > kLargest / std::abs(b)) return std::nullopt;
  return a * b;
}

Number power(int64_t a, int64_t b) {
  Number n = b < 0 || b > 64 ? std::nullopt : Number(1);
  for (int64_t i = 0; n && i < b; ++i) n = times(*n, a);
  return n;
}

// Longer signs stand before those that they begin with.
constexpr Operator kOperators[] = {
    {"||", 1, [](int64_t a, int64_t b) { return Number(a != 0 || b != 0); }},
    {"&&", 2, [](int64_t a, int64_t b) { return Number(a != 0 && b != 0); }},
    {"==", 3, [](int64_t a, int64_t b) { return Number(a == b); }},
    {"!=", 3, [](int64_t a, int64_t b) { return Number(a != b); }},
    {"<<", 5,
     [](int64_t a, int64_t b) {
       return a < 0 ? Number() : b < 0 || b > 40 ? Number() : times(a, int64_t{1} << b);
     }},
    {">>", 5,
     [](int64_t a, int64_t b) { return a < 0 || b < 0 || b > 62 ? Number() : Number(a >> b); }},
    {"<=", 4, [](int64_t a, int64_t b) { return Number(a <= b); }},
    {">=", 4, [](int64_t a, int64_t b) { return Number(a >= b); }},
    {"<", 4, [](int64_t a, int64_t b) { return Number(a < b); }},
    {">", 4, [](int64_t a, int64_t b) { return Number(a > b); }},
    {"+", 6, [](int64_t a, int64_t b) { return Number(a + b); }},
    {"-", 6, [](int64_t a, int64_t b) { return Number(a - b); }},
    {"**", 8, power},
    {"*", 7, times},
    {"/", 7, [](int64_t a, int64_t b) { return b == 0 ? Number() : Number(a / b); }},
    {"%", 7, [](int64_t a, int64_t b) { return b == 0 ? Number() : Number(a % b); }},
};
constexpr int kPower = 8;

// "8*(N+1)" of whole numbers and names, for which `value_of` gives a number.
class Arithmetic {
 public:
  using ValueOf = std::function<std::string(const std::string& name)>;
  Arithmetic(std::string_view text, ValueOf value_of)
      : text_(text), value_of_(std::move(value_of)) {}

  Number value() {
    const Number n = choice();
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

  static Number limited(Number n) { return n && std::abs(*n) <= kLargest ? n : std::nullopt; }

  // A ? B : C
  Number choice() {
    const Number asked = binary(1);
    if (!asked || !take('?')) return asked;
    if (++depth_ > 64) return std::nullopt;
    const Number yes = choice();
    if (!yes || !take(':')) return std::nullopt;
    const Number no = choice();
    return no ? (*asked != 0 ? yes : no) : std::nullopt;
  }

  const Operator* sign() {
    skip_blanks();
    for (const Operator& op : kOperators)
      if (text_.substr(at_).starts_with(op.sign)) return &op;
    return nullptr;
  }

  Number binary(int level) {
    Number total = factor();
    for (const Operator* op = sign(); total && op && op->level >= level; op = sign()) {
      at_ += op->sign.size();
      const Number next = binary(op->level == kPower ? kPower : op->level + 1);
      if (!next) return std::nullopt;
      total = limited(op->of(*total, *next));
    }
    return total;
  }

  Number factor() {
    if (++depth_ > 64) return std::nullopt;
    if (take('-')) {
      const Number n = factor();
      return n ? Number(-*n) : std::nullopt;
    }
    if (take('!')) {
      const Number n = factor();
      return n ? Number(*n == 0) : std::nullopt;
    }
    if (take('(')) {
      const Number inner = choice();
      return take(')') ? inner : std::nullopt;
    }
    skip_blanks();
    const size_t start = at_;
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    return number(std::string(text_.substr(start, at_ - start)));
  }

  Number number(std::string word) const {
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
