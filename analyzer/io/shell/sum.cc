#include "analyzer/io/shell/sum.h"

#include <optional>
#include <regex>
#include <utility>

#include "analyzer/io/shell/arithmetic.h"

namespace s2t {
namespace {

constexpr size_t kMostArithmetic = 4096;  // letters that may set variables

// "TP *= 2", "++TP", "TP = 2": the name, and what it becomes.
struct Change {
  std::string name, sum;
};

std::optional<Change> change_of(const std::string& statement) {
  static const std::regex kStep(R"(\s*(\+\+|--)?\s*([A-Za-z_]\w*)\s*(\+\+|--)?\s*)");
  static const std::regex kSet(R"(\s*([A-Za-z_]\w*)\s*([-+*/%])?=(?!=)([^]*))");
  std::smatch m;
  if (std::regex_match(statement, m, kStep) && m[1].matched != m[3].matched)
    return Change{m[2], m[2].str() + (m[1].matched ? m[1].str() : m[3].str())[0] + "1"};
  if (!std::regex_match(statement, m, kSet)) return std::nullopt;
  const std::string value = m[3];
  return Change{m[1], m[2].matched ? m[1].str() + m[2].str() + "(" + value + ")" : value};
}

// What names stand for, and what is to be told of the sum.
struct Sum {
  const ShellState& state;
  ShellPiece result;
  std::string why = {};

  std::string value_of(const std::string& name) {
    if (shell_name_end(name, 0) == 0) return name;
    const auto* values = state.find(name);
    const bool one = values && values->size() == 1 && values->front().words.size() == 1;
    const ShellText word = one ? values->front().words[0] : ShellText();
    if (!one || !word.open().empty()) {
      if (why.empty()) why = why_open(state, name);
      return "?";
    }
    result.conditional = result.conditional || word.conditional() || values->front().conditional;
    result.assumed = result.assumed || word.assumed();
    if (result.doubt.empty()) result.doubt = word.doubt();
    return word.plain();
  }
};

}  // namespace

ShellPiece calculated(const ShellText& text, const std::string& written, ShellState& state) {
  const std::string all = text.plain(), why = written + " cannot be computed here";
  const std::vector<std::string> changed = changed_names(all);
  const std::optional<Change> change =
      changed.size() == 1 && text.open().empty() ? change_of(all) : std::nullopt;
  Sum sum{state, {"", text.line(), text.conditional(), "", text.doubt()}};
  sum.result.assumed = text.assumed();
  std::optional<int64_t> value;
  if (text.open().empty() && (changed.empty() || change))
    value = computed(change ? change->sum : all,
                     [&](const std::string& name) { return sum.value_of(name); });
  if (!value) {
    for (const std::string& name : changed) state.open(name, why, text.line());
    sum.result.open = !changed.empty()       ? why
                      : !text.open().empty() ? text.open()
                      : sum.why.empty()      ? why
                                             : sum.why;
    return sum.result;
  }
  sum.result.text = std::to_string(*value);
  if (change) state.set(change->name, {.words = {ShellText(sum.result)}, .line = text.line()});
  // "N++" is what it was before: that is not told here.
  if (change && all.find_last_of("+-") == all.find_last_not_of(" \t\n")) sum.result.open = why;
  return sum.result;
}

std::vector<std::string> changed_names(const std::string& arithmetic) {
  if (arithmetic.size() > kMostArithmetic) return {};
  static const std::regex kName(
      R"((\+\+|--)?\s*([A-Za-z_]\w*)(?:\[[^\]]*\])?\s*(\+\+|--|(?:<<|>>|[-+*/%&|^])?=(?!=))?)");
  std::vector<std::string> names;
  for (std::sregex_iterator it(arithmetic.begin(), arithmetic.end(), kName), end; it != end; ++it)
    if ((*it)[1].matched || (*it)[3].matched) names.push_back((*it)[2]);
  return names;
}

}  // namespace s2t
