#include "analyzer/rule/mode.h"

#include <gtest/gtest.h>

#include "analyzer/ops/op.h"

namespace s2t {
namespace {

BoundRule bound(const std::string& op, const std::vector<Shape>& shapes) {
  std::string error;
  const OpDef& def = *find_op(op);
  const auto rule = rule_of(def, "", shapes.size(), error);
  auto b = bind_op(def, *rule, shapes, 1, {}, error);
  EXPECT_TRUE(b) << error;
  return b.value_or(BoundRule{});
}

BoundRule linear() {
  return bound("linear", {{2, 4}, {6, 4}});
}

Mode split(const BoundRule& rule, const std::string& factor) {
  return Mode::split(rule.find(factor).value());
}

struct Ports {
  Placement x, w, y;
  bool operator==(const Ports&) const = default;
};

Ports ports(const BoundRule& rule, const Mode& mode) {
  return {operand_port(rule, mode, 0), operand_port(rule, mode, 1), result_port(rule, mode, 0)};
}

const Placement R = Placement::R(), P = Placement::P();

Placement S(int dim) {
  return Placement::S(dim);
}

TEST(Mode, ALinearLayerHasTheFivePortsOfTheTable) {
  const BoundRule rule = linear();
  EXPECT_EQ(ports(rule, Mode::redundant()), (Ports{R, R, R}));
  EXPECT_EQ(ports(rule, split(rule, "n")), (Ports{R, S(0), S(1)}));   // column parallel
  EXPECT_EQ(ports(rule, split(rule, "k")), (Ports{S(1), S(1), P}));   // row parallel
  EXPECT_EQ(ports(rule, split(rule, "*0")), (Ports{S(0), R, S(0)}));  // data parallel
  EXPECT_EQ(ports(rule, Mode::linear(0)), (Ports{P, R, P}));          // lazy Partial
}

// Queries stay, keys and values pass by; heads are whole on every rank.
TEST(Mode, ARingCutsWhatStaysAndWhatPassesBy) {
  const BoundRule rule = bound("attention", {{2, 4, 8, 16}, {2, 2, 8, 16}, {2, 2, 8, 16}});
  const Mode ring = Mode::ring(rule.find("s").value(), rule.find("t").value());
  EXPECT_EQ(ports(rule, ring), (Ports{S(2), S(2), S(2)}));
  EXPECT_EQ(to_string(ring, rule), "ring(s)");
  EXPECT_TRUE(ring.cuts(rule.find("s").value()) && ring.cuts(rule.find("t").value()));
  EXPECT_FALSE(ring.cuts(rule.find("b").value()));
  EXPECT_FALSE(split(rule, "s").cuts(rule.find("t").value()));
}

TEST(Mode, ABiasIsPartialTogetherWithWhatItIsAddedTo) {
  const BoundRule rule = bound("bias_add", {{2, 4}, {4}});
  EXPECT_EQ(ports(rule, Mode::linear(0)), (Ports{P, P, P}));
}

TEST(Mode, AContractionIsCombinedAsItsRuleSays) {
  const BoundRule rule = bound("ce_max", {{2, 8}});
  EXPECT_EQ(result_port(rule, split(rule, "v"), 0), Placement::P(Combiner::max));
  EXPECT_EQ(result_port(rule, split(rule, "*0"), 0), S(0));
}

// x[(b s) d] with b = 4: s can be cut into blocks only once b is cut down to 1.
TEST(Mode, AFactorInsideAnotherWaitsUntilThatOneIsUsedUp) {
  std::string error;
  const auto line = parse_rule("x[b s d] -> y[(b s) d]", error);
  const BoundRule rule = *bind_rule(*line, {{4, 8, 2}}, {}, error);
  const FactorIndex b = *rule.find("b"), s = *rule.find("s"), d = *rule.find("d");
  const auto with_b_cut = [&](int64_t ways) {
    std::vector<int64_t> cuts(rule.factors.size(), 1);
    cuts[b.at()] = ways;
    return cuts;
  };
  EXPECT_EQ(in_the_way(rule, s, with_b_cut(1)), b);
  EXPECT_EQ(in_the_way(rule, s, with_b_cut(2)), b);
  EXPECT_EQ(in_the_way(rule, s, with_b_cut(4)), std::nullopt);
  EXPECT_EQ(in_the_way(rule, b, with_b_cut(1)), std::nullopt);
  EXPECT_EQ(in_the_way(rule, d, with_b_cut(1)), std::nullopt);
}

TEST(Mode, NamesSayTheFactor) {
  const BoundRule rule = linear();
  EXPECT_EQ(to_string(split(rule, "n"), rule), "split(n)");
  EXPECT_EQ(to_string(Mode::redundant(), rule), "redundant");
  EXPECT_EQ(to_string(Mode::linear(1), rule), "linear");
}

TEST(Cotangent, ShardsStayAndReplicasOweAPartial) {
  for (const bool redundant : {false, true})
    for (const bool per_rank : {false, true}) {
      EXPECT_EQ(cotangent(S(1), redundant, per_rank), S(1));
      EXPECT_EQ(cotangent(P, redundant, per_rank), R);
    }
  EXPECT_EQ(cotangent(R, false, false), P);
  EXPECT_EQ(cotangent(R, false, true), P);
  EXPECT_EQ(cotangent(R, true, true), P);
  EXPECT_EQ(cotangent(R, true, false), R);  // every rank did all the work
}

TEST(Cotangent, TheDualOfTheDualIsThePlacementItself) {
  for (const Placement p : {R, P, S(0), S(3)})
    EXPECT_EQ(cotangent(cotangent(p, false, false), false, false), p);
}

TEST(FactorOf, CutsTheMajorFactorFirstAndThenTheMinorOne) {
  const BoundRule rule =
      bound("attention", {{1, 8, 2, 2}, {1, 2, 2, 2}, {1, 2, 2, 2}});  // g 2, r 4
  const auto& heads = rule.operands[0][1];
  std::vector<int64_t> cuts(rule.factors.size(), 1);
  EXPECT_EQ(factor_of(rule, heads, cuts), rule.find("g"));
  cuts[rule.find("g")->at()] = 2;
  EXPECT_EQ(factor_of(rule, heads, cuts), rule.find("r"));
  cuts[rule.find("r")->at()] = 4;
  EXPECT_EQ(factor_of(rule, heads, cuts), std::nullopt);
}

}  // namespace
}  // namespace s2t
