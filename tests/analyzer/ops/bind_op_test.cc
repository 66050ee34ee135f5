#include <gtest/gtest.h>

#include "analyzer/ops/op.h"

namespace s2t {
namespace {

struct Bound {
  std::optional<BoundRule> rule;
  std::string error;
};

Bound bind(const std::string& op, const std::vector<Shape>& operands, size_t outputs,
           const std::string& stated = "") {
  Bound b;
  const OpDef& def = *find_op(op);
  if (const auto rule = rule_of(def, stated, operands.size(), b.error))
    b.rule = bind_op(def, *rule, operands, outputs, {}, b.error);
  return b;
}

TEST(BindOp, UnstackGivesEveryIndexOfTheFirstDimAnOutput) {
  const Bound b = bind("unstack", {{3, 4, 8}}, 3);
  ASSERT_TRUE(b.rule) << b.error;
  ASSERT_EQ(b.rule->results.size(), 3u);
  EXPECT_EQ(result_shape(*b.rule, 2), (Shape{4, 8}));
}

TEST(BindOp, UnstackIntoTheWrongNumberOfOutputsIsRefused) {
  EXPECT_EQ(bind("unstack", {{3, 4}}, 2).error,
            "dim 0 of operand x has size 3, but factor p says 2");
}

TEST(BindOp, SplitCutsTheLastDimIntoEqualParts) {
  const Bound b = bind("split", {{4, 6}}, 2);
  ASSERT_TRUE(b.rule) << b.error;
  EXPECT_EQ(result_shape(*b.rule, 0), (Shape{4, 3}));
  EXPECT_EQ(result_shape(*b.rule, 1), (Shape{4, 3}));
}

TEST(BindOp, ConcatAddsUpTheLastDims) {
  const Bound b = bind("concat", {{4, 2}, {4, 3}, {4, 1}}, 1);
  ASSERT_TRUE(b.rule) << b.error;
  EXPECT_EQ(result_shape(*b.rule, 0), (Shape{4, 6}));
  EXPECT_EQ(b.rule->linear, (std::vector<std::vector<size_t>>{{0, 1, 2}}));
}

TEST(BindOp, AnOpWithoutARuleSaysThatItNeedsOne) {
  EXPECT_EQ(bind("einsum", {{4, 2}}, 1).error, "einsum needs a \"rule\"");
}

TEST(BindOp, ASurplusOutputIsRefused) {
  EXPECT_EQ(bind("gelu", {{4}}, 2).error, "2 outputs given, gelu has 1");
}

}  // namespace
}  // namespace s2t
