// Claims that are wrong and must be refuted: a prover that cannot fail proves nothing.
#include <gtest/gtest.h>

#include "tests/prover/instances.h"

namespace s2t::prover {
namespace {

Plan split_over_2(const Instance& in, const std::string& factor) {
  return {{2}, {Mode::split(in.bound.find(factor).value())}, {false}};
}

const Plan kLinearOver2{{2}, {Mode::linear(0)}, {false}};

void expect_refuted(const Lie& claim, const std::string& split) {
  const Instance in = lie(claim);
  const Plan plan = split.empty() ? kLinearOver2 : split_over_2(in, split);
  ASSERT_TRUE(legal(in, plan));
  EXPECT_TRUE(refute(in, plan)) << claim.op << " " << claim.rule;
}

TEST(Refuted, GeluIsNotLinear) {
  expect_refuted({.op = "gelu", .linear = "{x}"}, "");
}

TEST(Refuted, ReluOfAPartialIsNotThePartialOfRelu) {
  expect_refuted({.op = "relu", .linear = "{x}"}, "");
}

TEST(Refuted, MulIsNotLinearInBothFactorsTogether) {
  expect_refuted({.op = "mul", .linear = "{a b}"}, "");
}

TEST(Refuted, ABiasOnAPartialIsCountedOncePerRank) {
  expect_refuted({.op = "bias_add", .linear = "{x}"}, "");
}

TEST(Refuted, TheRowLossIsAffineNotLinearInTheTarget) {
  expect_refuted({.op = "ce_rows", .linear = "{target}"}, "");
}

TEST(Refuted, DispatchIsNotLinearInTheRoute) {
  expect_refuted({.op = "moe_dispatch", .linear = "{route}"}, "");
}

TEST(Refuted, LayerNormNeedsTheWholeNormalisedDim) {
  expect_refuted({.op = "layer_norm", .rule = "x[* d] gamma[d] beta[d] -> y[* d]"}, "d");
}

TEST(Refuted, RmsNormNeedsTheWholeNormalisedDim) {
  expect_refuted({.op = "rms_norm", .rule = "x[* d] gamma[d] -> y[* d]"}, "d");
}

TEST(Refuted, SoftmaxNeedsTheWholeDim) {
  expect_refuted({.op = "softmax", .rule = "x[* d] -> y[* d]"}, "d");
}

TEST(Refuted, AttentionNeedsAllKeys) {
  expect_refuted(
      {.op = "attention", .rule = "q[b (g r) s h] k[b g t h!] v[b g t j] -> o[b (g r) s j]"}, "t");
}

TEST(Refuted, AttentionScoresNeedTheWholeHead) {
  expect_refuted({.op = "attention",
                  .rule = "q[b (g r) s h] k[b g t! h] v[b g t! j] -> o[b (g r) s j]",
                  .attributes = {{"scale", 0.5}}},
                 "h");
}

TEST(Refuted, RopePairsBothHalvesOfAHead) {
  expect_refuted({.op = "rope", .rule = "x[b n s h] -> y[b n s h]"}, "h");
}

TEST(Refuted, AMaximumIsNotASumOfMaxima) {
  expect_refuted({.op = "ce_max", .rule = "z[* v] -> max[*]"}, "v");
}

TEST(Refuted, AMeanOverTheLocalCountIsScaledByTheGroup) {
  Instance in = lie({.op = "mean"});
  const Plan plan = split_over_2(in, "*0");
  EXPECT_FALSE(refute(in, plan));
  in.attributes.erase("count");
  EXPECT_TRUE(refute(in, plan));
}

// Ops whose kernels must know where their part lies, and the factor whose split shows it.
struct Placed {
  Lie op;
  std::string factor;
};

class RefutedWithoutPlaces : public testing::TestWithParam<Placed> {};

TEST_P(RefutedWithoutPlaces, AndProvedWithThem) {
  const Instance in = lie(GetParam().op);
  const Plan plan = split_over_2(in, GetParam().factor);
  EXPECT_FALSE(refute(in, plan, Places::known));
  EXPECT_TRUE(refute(in, plan, Places::unknown));
}

INSTANTIATE_TEST_SUITE_P(
    Ops, RefutedWithoutPlaces,
    testing::Values(Placed{{.op = "embedding"}, "v"}, Placed{{.op = "ce_pick"}, "v"},
                    Placed{{.op = "rope"}, "s"}, Placed{{.op = "dropout"}, "*0"},
                    Placed{{.op = "attention", .attributes = {{"causal", true}}}, "s"}),
    [](const auto& placed) { return placed.param.op.op; });

// The layouts of gradients matter too: a replica of which each rank used a part owes a partial
// gradient, and reading it as a replica must fail.
TEST(Refuted, GradientsOfAReplicaUsedInPartsAreNotReplicas) {
  const Instance in = lie({.op = "linear"});
  const Mesh mesh({{"axis0", 2, AxisKind::model, {}}}, {});
  const Mode mode = Mode::split(in.bound.find("n").value());
  std::mt19937_64 random{5};
  std::string error;
  const Tensor dy = random_tensor(result_shape(in.bound, 0), true, random);
  std::vector<Tensor> dx;
  for (int r = 0; r < 2; ++r) {
    const OpCall call = in.call(local_view(in.bound, std::vector<Mode>{mode}, mesh, Rank(r)));
    const auto n = static_cast<int64_t>(in.inputs[1].shape()[0] / 2);
    const std::vector<Tensor> local{in.inputs[0], slice(in.inputs[1], 0, r * n, n)};
    const int last = static_cast<int>(dy.shape().size()) - 1;
    const std::vector<std::optional<Tensor>> part{slice(dy, last, r * n, n)};
    dx.push_back(*backward(call, local, forward(call, local), part, {true, false})[0]);
  }
  Layout replica(mesh);
  gather(dx, replica, mesh, 0, error);
  EXPECT_NE(error, "");
}

}  // namespace
}  // namespace s2t::prover
