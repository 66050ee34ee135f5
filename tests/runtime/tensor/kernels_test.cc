#include "runtime/tensor/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analyzer/base/diagnostics.h"

namespace s2t {
namespace {

using testing::ElementsAre;
using Gradients = std::vector<std::optional<Tensor>>;

OpCall call_of(const std::string& op, const std::vector<Tensor>& inputs,
               AttributeValues attributes = {}, size_t outputs = 1, const std::string& stated = "",
               std::map<std::string, int64_t> sizes = {}) {
  const OpDef* def = find_op(op);
  std::vector<Shape> shapes;
  for (const Tensor& t : inputs) shapes.push_back(t.shape());
  std::string error;
  const auto rule = rule_of(*def, stated, inputs.size(), error);
  EXPECT_TRUE(rule) << error;
  const auto bound = bind_op(*def, *rule, shapes, outputs, std::move(sizes), error);
  EXPECT_TRUE(bound) << op << ": " << error;
  return {def, std::move(attributes), whole_view(*bound)};
}

Tensor f64(Shape shape, std::initializer_list<double> x) {
  return Tensor::of(std::move(shape), DType::f64, x);
}

std::vector<double> values(const Tensor& t) {
  return t.read<double>();
}

TEST(Kernels, EveryRowOfTheOpTableThatIsNotCompositeHasOneAndNoOtherDoes) {
  std::vector<std::string> expected;
  for (const OpDef& def : op_table())
    if (def.steps.empty()) expected.emplace_back(def.name);
  EXPECT_THAT(ops_with_kernels(), testing::UnorderedElementsAreArray(expected));
}

TEST(Kernels, LinearMultipliesByTheTransposedWeight) {
  const std::vector<Tensor> in{f64({2, 3}, {1, 2, 3, 4, 5, 6}), f64({2, 3}, {1, 0, 1, 0, 2, 0})};
  const OpCall call = call_of("linear", in);
  const auto y = forward(call, in);
  EXPECT_THAT(values(y[0]), ElementsAre(4, 4, 10, 10));
  const auto grad = backward(call, in, y, Gradients{f64({2, 2}, {1, 0, 0, 1})}, {true, true});
  EXPECT_THAT(values(*grad[0]), ElementsAre(1, 0, 1, 0, 2, 0));
  EXPECT_THAT(values(*grad[1]), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Kernels, ReshapeMovesHeadsForward) {
  const std::vector<Tensor> in{f64({1, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7})};
  const OpCall call = call_of("reshape", in, {}, 1, "x[b s (h d)] -> y[b h s d]", {{"h", 2}});
  const auto y = forward(call, in);
  EXPECT_EQ(y[0].shape(), (Shape{1, 2, 2, 2}));
  EXPECT_THAT(values(y[0]), ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
}

TEST(Kernels, SplitCutsAndItsBackwardJoins) {
  const std::vector<Tensor> in{f64({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7})};
  const OpCall call = call_of("split", in, {}, 2);
  const auto y = forward(call, in);
  EXPECT_THAT(values(y[1]), ElementsAre(2, 3, 6, 7));
  const auto grad = backward(call, in, y, Gradients{y[0], std::nullopt}, {true});
  EXPECT_THAT(values(*grad[0]), ElementsAre(0, 1, 0, 0, 4, 5, 0, 0));
}

TEST(Kernels, ConcatJoinsUnequalWidths) {
  const std::vector<Tensor> in{f64({2, 1}, {0, 1}), f64({2, 2}, {2, 3, 4, 5})};
  const OpCall call = call_of("concat", in);
  const auto y = forward(call, in);
  EXPECT_THAT(values(y[0]), ElementsAre(0, 2, 3, 1, 4, 5));
  const auto grad = backward(call, in, y, Gradients{y[0]}, {true, true});
  EXPECT_EQ(*grad[0], in[0]);
  EXPECT_EQ(*grad[1], in[1]);
}

TEST(Kernels, TheFirstQueryOfCausalAttentionSeesOneKey) {
  const std::vector<Tensor> in{f64({1, 1, 2, 1}, {1, 1}), f64({1, 1, 2, 1}, {0, 0}),
                               f64({1, 1, 2, 1}, {3, 5})};
  OpCall call = call_of("attention", in, {{"causal", true}});
  EXPECT_THAT(values(forward(call, in)[0]), ElementsAre(3, 4));
  call.attributes["causal"] = false;
  EXPECT_THAT(values(forward(call, in)[0]), ElementsAre(4, 4));
}

TEST(Kernels, BFloat16ResultsAreRoundedOnceAfterTheOp) {
  // 1 + 2^-9 + 2^-9 = 1 + 2^-8, halfway between two bfloat16 numbers: to even, 1.
  const std::vector<Tensor> in{Tensor::of({3}, DType::bf16, {1, 0.001953125, 0.001953125})};
  const auto y = forward(call_of("einsum", in, {}, 1, "x[a] -> y[]"), in);
  EXPECT_EQ(y[0].dtype(), DType::bf16);
  EXPECT_THAT(values(y[0]), ElementsAre(1));
}

TEST(Kernels, CastGivesTheStatedDtypeAndItsGradientTheOldOne) {
  const std::vector<Tensor> in{Tensor::of({2}, DType::f32, {1.00390625, 2})};
  const OpCall call = call_of("cast", in, {{"dtype", std::string("bf16")}});
  const auto y = forward(call, in);
  EXPECT_EQ(y[0].dtype(), DType::bf16);
  EXPECT_EQ(backward(call, in, y, Gradients{y[0]}, {true})[0]->dtype(), DType::f32);
}

TEST(Kernels, IntegersAndStoppedOperandsHaveNoGradient) {
  const std::vector<Tensor> in{Tensor::of({2}, DType::i64, {0, 1}), f64({2, 1}, {5, 6})};
  const OpCall call = call_of("embedding", in);
  const auto y = forward(call, in);
  const auto grad = backward(call, in, y, Gradients{y[0]}, {true, true});
  EXPECT_FALSE(grad[0]);
  EXPECT_THAT(values(*grad[1]), ElementsAre(5, 6));
  const std::vector<Tensor> x{f64({2}, {1, 2})};
  EXPECT_FALSE(backward(call_of("detach", x), x, x, Gradients{x[0]}, {true})[0]);
}

TEST(Kernels, AWrongShapeIsAFault) {
  const std::vector<Tensor> in{f64({2}, {1, 2})}, other{f64({3}, {1, 2, 3})};
  EXPECT_THROW(forward(call_of("gelu", in), other), Fault);
}

// Backward kernels against central differences, on a small sample of each.
struct Sample {
  std::string op;
  std::vector<Shape> shapes;
  AttributeValues attributes = {};
};

Tensor wavy(const Shape& shape, double phase) {
  Tensor t(shape, DType::f64);
  std::vector<double> x(static_cast<size_t>(t.size()));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = std::sin(phase + 1.7 * static_cast<double>(i)) + 0.05;
  t.write<double>(x);
  return t;
}

double objective(const OpCall& call, const std::vector<Tensor>& in, const Tensor& weight) {
  const auto y = values(forward(call, in)[0]), w = values(weight);
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += y[i] * w[i];
  return sum;
}

double slope(const OpCall& call, std::vector<Tensor> in, size_t operand, size_t element,
             const Tensor& weight) {
  const double h = 1e-5;
  auto x = values(in[operand]);
  double difference = 0;
  for (const double sign : {1.0, -1.0}) {
    auto moved = x;
    moved[element] += sign * h;
    in[operand].write<double>(moved);
    difference += sign * objective(call, in, weight);
  }
  return difference / (2 * h);
}

class Differences : public testing::TestWithParam<Sample> {};

TEST_P(Differences, AgreeWithTheBackwardKernel) {
  const Sample& s = GetParam();
  std::vector<Tensor> in;
  for (size_t i = 0; i < s.shapes.size(); ++i)
    in.push_back(wavy(s.shapes[i], 0.3 + static_cast<double>(i)));
  if (s.op == "ce_rows") in[0] = f64({3}, {1.5, 2, 3});
  const OpCall call = call_of(s.op, in, s.attributes);
  const auto y = forward(call, in);
  const Tensor weight = wavy(y[0].shape(), 2);
  const auto grad = backward(call, in, y, Gradients{weight}, std::vector<bool>(in.size(), true));
  for (size_t i = 0; i < in.size(); ++i)
    for (int64_t e = 0; grad[i] && e < in[i].size(); ++e)
      EXPECT_NEAR(grad[i]->at(e), slope(call, in, i, static_cast<size_t>(e), weight), 1e-7)
          << s.op << " operand " << i << " element " << e;
}

INSTANTIATE_TEST_SUITE_P(
    Rows, Differences,
    testing::Values(
        Sample{"matmul", {{2, 3, 2}, {2, 2, 3}}}, Sample{"bias_add", {{2, 3}, {3}}},
        Sample{"sub", {{3}, {3}}}, Sample{"mul", {{3}, {3}}},
        Sample{"scale", {{3}}, {{"factor", 2.5}}}, Sample{"dropout", {{16}}, {{"p", 0.5}}},
        Sample{"gelu", {{5}}}, Sample{"gelu_tanh", {{5}}}, Sample{"relu", {{5}}},
        Sample{"relu_squared", {{5}}}, Sample{"sigmoid", {{5}}}, Sample{"silu", {{5}}},
        Sample{"tanh", {{5}}}, Sample{"swiglu", {{4}, {4}}}, Sample{"geglu", {{4}, {4}}},
        Sample{"layer_norm", {{2, 5}, {5}, {5}}}, Sample{"rms_norm", {{2, 5}, {5}}},
        Sample{"softmax", {{2, 4}}},
        Sample{"attention", {{1, 4, 3, 2}, {1, 2, 3, 2}, {1, 2, 3, 3}}},
        Sample{"attention", {{1, 2, 3, 2}, {1, 2, 3, 2}, {1, 2, 3, 2}}, {{"causal", true}}},
        Sample{"attention_biased",
               {{2, 4, 3, 2}, {2, 2, 3, 2}, {2, 2, 3, 3}, {3, 3, 4}},
               {{"causal", true}}},
        Sample{"attention_with_sinks", {{2, 4, 3, 2}, {2, 2, 3, 2}, {2, 2, 3, 3}, {4}}},
        Sample{"layer_norm_unshifted", {{2, 5}, {5}}}, Sample{"first", {{3, 2, 2}}},
        Sample{"moe_bias", {{2, 3, 2}, {2, 2}}}, Sample{"rope", {{1, 2, 3, 4}}},
        Sample{"mean_square", {{2, 3}}}, Sample{"mse", {{2, 3}, {2, 3}}}, Sample{"mean", {{2, 3}}},
        Sample{"ce_rows", {{3}, {3}, {3}}}, Sample{"moe_dispatch", {{3, 2}, {3, 2}}},
        Sample{"moe_expert", {{2, 3, 2}, {2, 2, 2}}}, Sample{"moe_combine", {{2, 3, 2}, {3, 2}}},
        Sample{"moe_probs", {{3, 2}}}, Sample{"moe_weigh", {{2, 3, 2}, {2, 3}}},
        Sample{"moe_collect", {{2, 3, 2}, {3, 2}}}, Sample{"add_positions", {{2, 3, 2}, {3, 2}}}),
    [](const auto& sample) { return sample.param.op + std::to_string(sample.index); });

}  // namespace
}  // namespace s2t
