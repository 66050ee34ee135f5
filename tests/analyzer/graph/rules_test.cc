#include "analyzer/graph/rules.h"

#include <gtest/gtest.h>

namespace s2t {
namespace {

const OpDef& linear() {
  return *find_op("linear");
}

TEST(RuleTable, AlikeOpsShareOneRule) {
  RuleTable table;
  std::string error;
  const auto a = table.rule(linear(), "", 2, error), b = table.rule(linear(), "", 2, error);
  EXPECT_EQ(a->get(), b->get());
  const std::vector<Shape> shapes{{8, 4}, {16, 4}};
  const auto x = table.bound(linear(), *a, shapes, 1, {}, error);
  const auto y = table.bound(linear(), *b, shapes, 1, {}, error);
  EXPECT_EQ(x->get(), y->get());
  EXPECT_EQ(result_shape(**x, 0), (Shape{8, 16}));
}

TEST(RuleTable, WhatDiffersInShapesOrSizesIsBoundAlone) {
  RuleTable table;
  std::string error;
  const OpDef& reshape = *find_op("reshape");
  const auto rule = table.rule(reshape, "x[b (h d)] -> y[b h d]", 1, error);
  const auto two = table.bound(reshape, *rule, {{4, 12}}, 1, {{"h", 2}}, error);
  const auto three = table.bound(reshape, *rule, {{4, 12}}, 1, {{"h", 3}}, error);
  const auto wider = table.bound(reshape, *rule, {{4, 24}}, 1, {{"h", 2}}, error);
  EXPECT_EQ(result_shape(**two, 0), (Shape{4, 2, 6}));
  EXPECT_EQ(result_shape(**three, 0), (Shape{4, 3, 4}));
  EXPECT_EQ(result_shape(**wider, 0), (Shape{4, 2, 12}));
}

TEST(RuleTable, AMistakeIsReportedEveryTime) {
  RuleTable table;
  const auto rule = [&] {
    std::string error;
    return *table.rule(linear(), "", 2, error);
  }();
  for (int i = 0; i < 2; ++i) {
    std::string error;
    EXPECT_FALSE(table.bound(linear(), rule, {{8, 4}, {16, 5}}, 1, {}, error));
    EXPECT_NE(error, "");
  }
}

}  // namespace
}  // namespace s2t
