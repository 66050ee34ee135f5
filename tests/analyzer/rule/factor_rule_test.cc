#include "analyzer/rule/factor_rule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analyzer/ops/op.h"

namespace s2t {
namespace {

// The notation again, from what was parsed.
std::string print(const TensorPattern& t) {
  std::string text = t.name + "[";
  for (size_t d = 0; d < t.dims.size(); ++d) {
    std::string dim;
    for (const FactorName& f : t.dims[d])
      dim += (dim.empty() ? "" : " ") + f.name + (f.whole ? "!" : "");
    text += (d ? " " : "") + (t.dims[d].size() == 1 ? dim : "(" + dim + ")");
  }
  return text + "]";
}

std::string print(const FactorRule& rule) {
  std::string text;
  for (const TensorPattern& t : rule.operands) text += print(t) + " ";
  text += "->";
  for (const TensorPattern& t : rule.results) text += " " + print(t);
  for (const auto& [factor, combiner] : rule.combiners)
    text += " " + factor + (combiner == Combiner::max ? "~max" : "~sum");
  return text;
}

FactorRule parsed(std::string_view text) {
  std::string error;
  const auto rule = parse_rule(text, error);
  EXPECT_TRUE(rule) << text << ": " << error;
  return rule.value_or(FactorRule{});
}

std::string complaint(std::string_view text) {
  std::string error;
  EXPECT_FALSE(parse_rule(text, error)) << text;
  return error;
}

TEST(FactorRule, EveryRowOfTheOpTablePrintsAsItWasWritten) {
  for (const OpDef& def : op_table())
    if (!def.rule.empty()) {
      EXPECT_EQ(print(parsed(def.rule)), def.rule) << def.name;
    }
}

TEST(FactorRule, PrintingAndParsingAgainIsTheIdentity) {
  for (const char* text : {"x[* k] w[n k] -> y[* n]", "q[b (g r) s h] -> o[b s (g r h)]",
                           "x[p! *] -> y[*] z[*]", "z[* v] -> m[*] v~max", "x[] -> y[]"}) {
    EXPECT_EQ(print(parsed(text)), text);
    EXPECT_EQ(print(parsed(print(parsed(text)))), text);
  }
}

TEST(FactorRule, CommasAndSpacesSeparateAlike) {
  EXPECT_EQ(print(parsed("a[i,k],b[k j]->y[i j]")), "a[i k] b[k j] -> y[i j]");
}

TEST(FactorRule, AMistakeIsPlacedByItsColumn) {
  EXPECT_EQ(complaint("x[a b"), "at column 6: expected a factor, '*' or ']'");
  EXPECT_EQ(complaint("x[a b]"), "at column 7: expected \"->\"");
  EXPECT_EQ(complaint("x a] -> y[a]"), "at column 3: expected '['");
  EXPECT_EQ(complaint("x[a] -> "), "at column 9: expected an operand and a result");
  EXPECT_EQ(complaint("-> y[a]"), "at column 8: expected an operand and a result");
  EXPECT_EQ(complaint("x[a] -> y[] a~min"), "at column 18: expected \"max\" or \"sum\"");
  EXPECT_EQ(complaint("x[(a b] -> y[a]"), "at column 7: expected a factor, '*' or ']'");
  EXPECT_EQ(complaint("x[a?] -> y[a]"), "at column 4: expected a factor, '*' or ']'");
  EXPECT_EQ(complaint(""), "at column 1: expected \"->\"");
}

TEST(FactorRule, AStarStandsAloneAndOncePerTensor) {
  EXPECT_EQ(complaint("x[* a *] -> y[*]"), "at column 8: expected one '*' per tensor");
  EXPECT_EQ(complaint("x[(* a)] -> y[a]"),
            "at column 4: expected a factor or ')'; '*' stands for dims of its own");
}

TEST(FactorRule, LinearGroupsAreOperandIndices) {
  const FactorRule rule = parsed("x[* n] b[n] -> y[* n]");
  using Groups = std::vector<std::vector<size_t>>;
  EXPECT_EQ(parse_linear("{x b}", rule), (Groups{{0, 1}}));
  EXPECT_EQ(parse_linear("{x} {b}", rule), (Groups{{0}, {1}}));
  EXPECT_EQ(parse_linear("", rule), Groups{});
}

struct Bound {
  std::optional<BoundRule> rule;
  std::string error;
};

Bound bind(std::string_view text, const std::vector<Shape>& shapes,
           const std::map<std::string, int64_t>& sizes = {}) {
  Bound b;
  b.rule = bind_rule(parsed(text), shapes, sizes, b.error);
  return b;
}

int64_t size_of(const Bound& b, std::string_view factor) {
  return b.rule->factors[b.rule->find(factor).value().at()].size;
}

TEST(BindRule, StarIsOneFactorPerLeadingDim) {
  const Bound b = bind("x[* k] w[n k] -> y[* n]", {{2, 3, 5}, {7, 5}});
  ASSERT_TRUE(b.rule) << b.error;
  EXPECT_EQ(size_of(b, "*0"), 2);
  EXPECT_EQ(size_of(b, "*1"), 3);
  EXPECT_EQ(result_shape(*b.rule, 0), (Shape{2, 3, 7}));
  EXPECT_FALSE(b.rule->factors[b.rule->find("k").value().at()].in_result);
  EXPECT_TRUE(b.rule->factors[b.rule->find("n").value().at()].in_result);
}

TEST(BindRule, StarMayBeNoDimAtAll) {
  const Bound b = bind("x[* k] w[n k] -> y[* n]", {{5}, {7, 5}});
  ASSERT_TRUE(b.rule) << b.error;
  EXPECT_EQ(result_shape(*b.rule, 0), (Shape{7}));
}

TEST(BindRule, ACompoundDimIsSolvedFromTheOtherOperands) {
  const Bound b = bind("q[b (g r) s h] k[b g t! h!] v[b g t! j] -> o[b (g r) s j]",
                       {{2, 12, 5, 4}, {2, 3, 6, 4}, {2, 3, 6, 8}});
  ASSERT_TRUE(b.rule) << b.error;
  EXPECT_EQ(size_of(b, "g"), 3);
  EXPECT_EQ(size_of(b, "r"), 4);
  EXPECT_EQ(result_shape(*b.rule, 0), (Shape{2, 12, 5, 8}));
  EXPECT_TRUE(b.rule->factors[b.rule->find("h").value().at()].whole);
}

TEST(BindRule, SizesSettleWhatTheOperandsLeaveOpen) {
  const char* rule = "x[b (h d)] -> y[b h d]";
  EXPECT_EQ(bind(rule, {{2, 12}}).error,
            "the size of factor \"h\" does not follow from the operands; give it in \"sizes\"");
  const Bound b = bind(rule, {{2, 12}}, {{"h", 3}});
  ASSERT_TRUE(b.rule) << b.error;
  EXPECT_EQ(result_shape(*b.rule, 0), (Shape{2, 3, 4}));
}

TEST(BindRule, MismatchesNameTheOperandAndTheDim) {
  EXPECT_EQ(bind("x[* k] w[n k] -> y[* n]", {{2, 5}, {7, 6}}).error,
            "dim 1 of operand w has size 6, but factor k says 5");
  EXPECT_EQ(bind("x[b (h d)] -> y[b h d]", {{2, 12}}, {{"h", 5}}).error,
            "dim 1 of operand x has size 12, but factor h d says a multiple of 5");
  EXPECT_EQ(bind("x[* k] w[n k] -> y[* n]", {{2, 5}}).error, "1 operands given, the rule takes 2");
  EXPECT_EQ(bind("x[* k] w[n k] -> y[* n]", {{2, 5}, {7}}).error,
            "operand w has 1 dims, the rule wants 2");
  EXPECT_EQ(bind("x[* k] w[n k] -> y[* n]", {{}, {7, 5}}).error,
            "operand x has 0 dims, the rule wants at least 1");
  EXPECT_EQ(bind("a[*] b[*] -> y[*]", {{2, 5}, {5}}).error,
            "operand b has 1 leading dims, another operand has 2");
}

TEST(BindRule, SizesAreCheckedThemselves) {
  EXPECT_EQ(bind("x[b (h d)] -> y[b h d]", {{2, 12}}, {{"g", 3}}).error,
            "\"sizes\" names factor \"g\", which the rule lacks");
  EXPECT_EQ(bind("x[b (h d)] -> y[b h d]", {{2, 12}}, {{"h", 0}}).error,
            "\"sizes\" gives factor \"h\" size 0; at least 1, please");
}

TEST(BindRule, HugeProductsAreRefusedInsteadOfWrapping) {
  const int64_t huge = int64_t{1} << 40;
  EXPECT_EQ(bind("x[a] z[b] -> y[(a b)]", {{huge}, {huge}}).error, "a dim of y exceeds 64 bits");
  EXPECT_EQ(bind("x[(a b)] -> y[a b]", {{4}}, {{"a", huge}, {"b", huge}}).error,
            "a dim of x exceeds 64 bits");
}

}  // namespace
}  // namespace s2t
