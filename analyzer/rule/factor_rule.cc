#include "analyzer/rule/factor_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>

namespace s2t {
namespace {

// Recursive descent over the notation; `fail` remembers the first mistake.
class RuleParser {
 public:
  RuleParser(std::string_view text, std::string& error) : text_(text), error_(error) {}

  std::optional<FactorRule> parse() {
    FactorRule rule;
    rule.text = std::string(text_);
    while (ok_ && !at("->") && !end()) rule.operands.push_back(tensor());
    if (ok_ && !take("->")) fail("\"->\"");
    while (ok_ && !end() && !combiner_ahead()) rule.results.push_back(tensor());
    while (ok_ && !end()) combiner(rule);
    if (ok_ && (rule.operands.empty() || rule.results.empty())) fail("an operand and a result");
    if (!ok_) return std::nullopt;
    return rule;
  }

 private:
  TensorPattern tensor() {
    TensorPattern t;
    t.name = word("a tensor name");
    if (ok_ && !take("[")) fail("'['");
    size_t stars = 0;
    while (ok_ && !take("]")) {
      t.dims.push_back(dim());
      stars += t.dims.back().size() == 1 && t.dims.back()[0].name == "*";
      if (stars > 1) fail("one '*' per tensor");
    }
    return t;
  }

  std::vector<FactorName> dim() {
    if (!take("(")) return {factor()};
    std::vector<FactorName> factors;
    while (ok_ && !take(")")) {
      if (at("*")) fail("a factor or ')'; '*' stands for dims of its own");
      factors.push_back(factor());
    }
    return factors;
  }

  FactorName factor() {
    if (take("*")) return {"*", false};
    FactorName f{word("a factor, '*' or ']'"), false};
    f.whole = take("!");
    return f;
  }

  void combiner(FactorRule& rule) {
    const std::string f = word("a factor");
    if (ok_ && !take("~")) fail("'~'");
    const std::string op = ok_ ? word("\"max\" or \"sum\"") : "";
    if (ok_ && op != "max" && op != "sum") fail("\"max\" or \"sum\"");
    rule.combiners[f] = op == "max" ? Combiner::max : Combiner::sum;
  }

  bool combiner_ahead() {
    skip();
    size_t i = pos_;
    while (i < text_.size() && word_char(text_[i])) ++i;
    return i < text_.size() && text_[i] == '~';
  }

  static bool word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  std::string word(std::string_view expected) {
    skip();
    const size_t begin = pos_;
    while (pos_ < text_.size() && word_char(text_[pos_])) ++pos_;
    if (pos_ == begin) fail(expected);
    return std::string(text_.substr(begin, pos_ - begin));
  }

  void skip() {
    while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == ',')) ++pos_;
  }
  bool end() {
    skip();
    return pos_ == text_.size();
  }
  bool at(std::string_view token) {
    skip();
    return text_.substr(pos_, token.size()) == token;
  }
  bool take(std::string_view token) {
    if (!at(token)) return false;
    pos_ += token.size();
    return true;
  }
  void fail(std::string_view expected) {
    if (ok_) error_ = fmt::format("at column {}: expected {}", pos_ + 1, expected);
    ok_ = false;
  }

  std::string_view text_;
  std::string& error_;
  size_t pos_ = 0;
  bool ok_ = true;
};

size_t stars(const TensorPattern& t) {
  size_t n = 0;
  for (const auto& dim : t.dims)
    for (const FactorName& f : dim) n += f.name == "*";
  return n;
}

// Binds names to numbers while sizes become known.
class Binder {
 public:
  Binder(const FactorRule& rule, const std::vector<Shape>& shapes, std::string& error)
      : rule_(rule), shapes_(shapes), error_(error) {}

  std::optional<BoundRule> bind(const std::map<std::string, int64_t>& sizes) {
    if (!expand_stars()) return std::nullopt;
    for (const TensorPattern& t : operands_) bound_.operands.push_back(number(t));
    for (const TensorPattern& t : results_) bound_.results.push_back(number(t));
    for (const auto& [name, size] : sizes)
      if (!give(name, size)) return std::nullopt;
    for (size_t round = 0; round <= bound_.factors.size(); ++round)
      if (!solve_round()) return std::nullopt;
    for (const Factor& f : bound_.factors)
      if (f.size == 0) {
        error_ = fmt::format(
            "the size of factor \"{}\" does not follow from the operands; give it in \"sizes\"",
            f.name);
        return std::nullopt;
      }
    mark_results();
    if (!results_fit()) return std::nullopt;
    return std::move(bound_);
  }

 private:
  bool give(const std::string& name, int64_t size) {
    const auto f = bound_.find(name);
    if (!f)
      error_ = fmt::format("\"sizes\" names factor \"{}\", which the rule lacks", name);
    else if (size < 1)
      error_ = fmt::format("\"sizes\" gives factor \"{}\" size {}; at least 1, please", name, size);
    else
      bound_.factors[f->at()].size = size;
    return error_.empty();
  }

  bool expand_stars() {
    if (shapes_.size() != rule_.operands.size()) {
      error_ = fmt::format("{} operands given, the rule takes {}", shapes_.size(),
                           rule_.operands.size());
      return false;
    }
    std::optional<size_t> rank;
    for (size_t i = 0; i < shapes_.size(); ++i) {
      const TensorPattern& t = rule_.operands[i];
      const size_t fixed = t.dims.size() - stars(t);
      if (shapes_[i].size() < fixed || (stars(t) == 0 && shapes_[i].size() != fixed)) {
        error_ = fmt::format("operand {} has {} dims, the rule wants {}{}", t.name,
                             shapes_[i].size(), stars(t) ? "at least " : "", fixed);
        return false;
      }
      if (stars(t) == 0) continue;
      const size_t here = shapes_[i].size() - fixed;
      if (rank && *rank != here) {
        error_ = fmt::format("operand {} has {} leading dims, another operand has {}", t.name, here,
                             *rank);
        return false;
      }
      rank = here;
    }
    for (const TensorPattern& t : rule_.operands) operands_.push_back(expand(t, rank.value_or(0)));
    for (const TensorPattern& t : rule_.results) results_.push_back(expand(t, rank.value_or(0)));
    return true;
  }

  static TensorPattern expand(const TensorPattern& t, size_t rank) {
    TensorPattern out{t.name, {}};
    for (const auto& dim : t.dims) {
      if (dim.size() == 1 && dim[0].name == "*")
        for (size_t i = 0; i < rank; ++i) out.dims.push_back({{fmt::format("*{}", i), false}});
      else
        out.dims.push_back(dim);
    }
    return out;
  }

  std::vector<std::vector<FactorIndex>> number(const TensorPattern& t) {
    std::vector<std::vector<FactorIndex>> dims;
    for (const auto& dim : t.dims) {
      dims.emplace_back();
      for (const FactorName& f : dim) dims.back().push_back(intern(f));
    }
    return dims;
  }

  FactorIndex intern(const FactorName& name) {
    auto f = bound_.find(name.name);
    if (!f) {
      f = FactorIndex(bound_.factors.size());
      bound_.factors.push_back({name.name, 0, false, false, Combiner::sum});
      if (const auto it = rule_.combiners.find(name.name); it != rule_.combiners.end())
        bound_.factors.back().combiner = it->second;
    }
    bound_.factors[f->at()].whole |= name.whole;
    return *f;
  }

  // One pass over all dims: a dim with one unknown factor fixes it.
  bool solve_round() {
    for (size_t i = 0; i < shapes_.size(); ++i)
      for (size_t d = 0; d < shapes_[i].size(); ++d)
        if (!solve_dim(i, d)) return false;
    return true;
  }

  bool solve_dim(size_t operand, size_t d) {
    const int64_t size = shapes_[operand][d];
    int64_t known = 1;
    Factor* unknown = nullptr;
    for (const FactorIndex f : bound_.operands[operand][d]) {
      Factor& factor = bound_.factors[f.at()];
      if (factor.size == 0 && unknown) return true;  // two unknowns: a later round may help
      if (factor.size == 0)
        unknown = &factor;
      else if (__builtin_mul_overflow(known, factor.size, &known))
        return too_large(rule_.operands[operand].name);
    }
    if (unknown && size % known == 0) {
      unknown->size = size / known;
      return true;
    }
    if (!unknown && known == size) return true;
    error_ = fmt::format("dim {} of operand {} has size {}, but {} says {}", d,
                         rule_.operands[operand].name, size, dim_text(operand, d),
                         unknown ? fmt::format("a multiple of {}", known) : std::to_string(known));
    return false;
  }

  // A result may combine factors of several operands into one dim.
  bool results_fit() {
    for (size_t i = 0; i < bound_.results.size(); ++i)
      for (const auto& dim : bound_.results[i]) {
        int64_t size = 1;
        for (const FactorIndex f : dim)
          if (__builtin_mul_overflow(size, bound_.factors[f.at()].size, &size))
            return too_large(rule_.results[i].name);
      }
    return true;
  }

  bool too_large(const std::string& tensor) {
    error_ = fmt::format("a dim of {} exceeds 64 bits", tensor);
    return false;
  }

  std::string dim_text(size_t operand, size_t d) const {
    std::string text;
    for (const FactorIndex f : bound_.operands[operand][d])
      text += (text.empty() ? "" : " ") + bound_.factors[f.at()].name;
    return "factor " + text;
  }

  void mark_results() {
    for (const auto& tensor : bound_.results)
      for (const auto& dim : tensor)
        for (const FactorIndex f : dim) bound_.factors[f.at()].in_result = true;
  }

  const FactorRule& rule_;
  const std::vector<Shape>& shapes_;
  std::string& error_;
  std::vector<TensorPattern> operands_, results_;
  BoundRule bound_;
};

}  // namespace

std::optional<FactorRule> parse_rule(std::string_view text, std::string& error) {
  return RuleParser(text, error).parse();
}

std::vector<std::vector<size_t>> parse_linear(std::string_view text, const FactorRule& rule) {
  std::vector<std::vector<size_t>> groups;
  std::string word;
  auto flush = [&] {
    for (size_t i = 0; i < rule.operands.size(); ++i)
      if (rule.operands[i].name == word) groups.back().push_back(i);
    word.clear();
  };
  for (const char c : text) {
    if (c == '{') {
      groups.emplace_back();
    } else if (c == '}' || c == ' ') {
      if (!groups.empty()) flush();
    } else {
      word += c;
    }
  }
  return groups;
}

std::optional<FactorIndex> BoundRule::find(std::string_view name) const {
  for (size_t i = 0; i < factors.size(); ++i)
    if (factors[i].name == name) return FactorIndex(i);
  return std::nullopt;
}

bool BoundRule::has(const std::vector<std::vector<FactorIndex>>& tensor, FactorIndex f) const {
  for (const auto& dim : tensor)
    if (std::find(dim.begin(), dim.end(), f) != dim.end()) return true;
  return false;
}

std::optional<BoundRule> bind_rule(const FactorRule& rule, const std::vector<Shape>& operands,
                                   const std::map<std::string, int64_t>& sizes,
                                   std::string& error) {
  return Binder(rule, operands, error).bind(sizes);
}

Shape result_shape(const BoundRule& rule, size_t result) {
  Shape shape;
  for (const auto& dim : rule.results[result]) {
    int64_t size = 1;
    for (const FactorIndex f : dim) size *= rule.factors[f.at()].size;
    shape.push_back(size);
  }
  return shape;
}

}  // namespace s2t
