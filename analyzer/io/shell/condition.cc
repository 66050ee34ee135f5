#include "analyzer/io/shell/condition.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>
#include <utility>

namespace s2t {
namespace {

constexpr int kDeepest = 64;  // brackets in each other

using Answer = std::optional<bool>;

// It has this one value whatever the run sets.
bool is_known(const ShellText& text) {
  return std::all_of(text.pieces().begin(), text.pieces().end(), [](const ShellPiece& p) {
    return p.open.empty() && !p.conditional && p.doubt.empty() && !p.assumed;
  });
}

std::optional<int64_t> number(const std::string& text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(n) : std::nullopt;
}

struct Comparison {
  std::string_view name;
  bool (*holds)(int64_t, int64_t);
};
constexpr Comparison kNumbers[] = {
    {"-eq", [](int64_t a, int64_t b) { return a == b; }},
    {"-ne", [](int64_t a, int64_t b) { return a != b; }},
    {"-lt", [](int64_t a, int64_t b) { return a < b; }},
    {"-le", [](int64_t a, int64_t b) { return a <= b; }},
    {"-gt", [](int64_t a, int64_t b) { return a > b; }},
    {"-ge", [](int64_t a, int64_t b) { return a >= b; }},
};
constexpr std::string_view kTexts[] = {"=", "==", "!=", "=~", "<", ">", "-nt", "-ot", "-ef"};

const Comparison* of_numbers(const std::string& name) {
  for (const Comparison& each : kNumbers)
    if (each.name == name) return &each;
  return nullptr;
}

bool is_comparison(const std::string& name) {
  return of_numbers(name) ||
         std::find(std::begin(kTexts), std::end(kTexts), name) != std::end(kTexts);
}

Answer compare(const ShellOperand& a, const std::string& how, const ShellOperand& b) {
  if (how == "=" || how == "==") return matches(a.text, b);
  if (how == "!=") {
    const Answer same = matches(a.text, b);
    return same ? Answer(!*same) : std::nullopt;
  }
  const Comparison* numbers = of_numbers(how);
  const auto x = number(a.text.plain()), y = number(b.text.plain());
  if (!numbers || !x || !y || !is_known(a.text) || !is_known(b.text)) return std::nullopt;
  return numbers->holds(*x, *y);
}

class Test {
 public:
  explicit Test(const std::vector<ShellOperand>& words) : words_(words) {}

  Answer value() {
    if (words_.empty()) return false;
    const Answer all = either();
    return at_ == words_.size() ? all : std::nullopt;
  }

 private:
  std::string word(size_t ahead = 0) const {
    return at_ + ahead < words_.size() ? words_[at_ + ahead].text.plain() : "";
  }
  bool take(std::string_view what) {
    if (at_ == words_.size() || word() != what) return false;
    ++at_;
    return true;
  }

  Answer either() {
    Answer all = both();
    while (take("||") || take("-o")) {
      const Answer next = both();
      all = all == true || next == true ? Answer(true) : all && next ? Answer(false) : std::nullopt;
    }
    return all;
  }

  Answer both() {
    Answer all = one();
    while (take("&&") || take("-a")) {
      const Answer next = one();
      all = all == false || next == false ? Answer(false)
            : all && next                 ? Answer(true)
                                          : std::nullopt;
    }
    return all;
  }

  Answer one() {
    if (at_ + 2 < words_.size() && is_comparison(word(1))) {
      at_ += 3;
      return compare(words_[at_ - 3], words_[at_ - 2].text.plain(), words_[at_ - 1]);
    }
    if (++depth_ > kDeepest) return std::nullopt;
    if (take("!")) {
      const Answer inner = one();
      return inner ? Answer(!*inner) : std::nullopt;
    }
    if (take("(")) {
      const Answer inner = either();
      return take(")") ? inner : std::nullopt;
    }
    return about_one();
  }

  // -z X, -f X; X is like -n X.
  Answer about_one() {
    const std::string how = word();
    const bool named = how.size() == 2 && how[0] == '-' && at_ + 1 < words_.size();
    at_ += named ? 2 : 1;
    if (at_ > words_.size()) return std::nullopt;
    const ShellText& text = words_[at_ - 1].text;
    if (!is_known(text) || (named && how != "-z" && how != "-n")) return std::nullopt;
    return text.plain().empty() == (named && how == "-z");
  }

  const std::vector<ShellOperand>& words_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

ShellOperand operand_of(const ShellWord& word, ShellExpansion expansion) {
  const std::string raw = word.text();
  const bool quotes = raw.find_first_of("'\"\\") != std::string::npos;
  const bool all = quotes && raw.size() > 1 && raw.front() == raw.back() && raw.front() != '\\' &&
                   behind_quoted(*word.source, word.begin) == word.end;
  ShellOperand o{expansion.value(word), !quotes};
  // Letters in quotes, and others that are a pattern.
  if (quotes && !all && raw.find_first_of("*?[$`") != std::string::npos)
    o.text = ShellText({raw, word.line(), false, "a pattern with quotes"});
  return o;
}

Answer matches(const ShellText& text, const ShellOperand& pattern) {
  if (!is_known(text) || !is_known(pattern.text)) return std::nullopt;
  const std::string a = text.plain(), b = pattern.text.plain();
  if (!pattern.pattern || b.find_first_of("*?[\\") == std::string::npos) return a == b;
  return b == "*" || fnmatch(b.c_str(), a.c_str(), 0) == 0;
}

Answer tested(const std::vector<ShellOperand>& words) {
  for (const ShellOperand& word : words)
    for (const ShellPiece& piece : word.text.pieces())
      if (piece.splits) return std::nullopt;  // how many words there are is not known
  return Test(words).value();
}

}  // namespace s2t
