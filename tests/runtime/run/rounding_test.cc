// What rounding does to a model unsharded: little where terms add up, all there is where they cancel.
#include "runtime/run/rounding.h"

#include <gtest/gtest.h>

#include "analyzer/graph/passes.h"
#include "analyzer/io/model_json.h"

namespace s2t {
namespace {

// A bias in front of a softmax over the other dim: its gradient is 0.
constexpr const char* kBiasBeforeSoftmax = R"j({
    "schema": "shape2trace.model/1", "mesh": {"axes": [{"name": "tp", "size": 2}]},
    "tensors": {"x": {"shape": [3, 8, 4], "requires_grad": true},
                "w": {"shape": [4, 4], "parameter": true},
                "b": {"shape": [4], "parameter": true}},
    "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "y"},
            {"op": "bias_add", "inputs": ["y", "b"], "output": "u"},
            {"op": "transpose", "inputs": ["u"], "output": "t", "rule": "x[b s d] -> y[b d s]"},
            {"op": "softmax", "inputs": ["t"], "output": "p"},
            {"op": "mean_square", "inputs": ["p"], "output": "loss"}],
    "loss": "loss"})j";

double greatest(const Tensor& t) {
  return max_abs_difference(t, Tensor(t.shape(), t.dtype()));
}

class RoundingOf : public testing::TestWithParam<DType> {
 protected:
  TensorId named(const std::string& name) const {
    for (size_t v = 0; v < graph.values.size(); ++v)
      if (graph.values[v].name == name) return TensorId(v);
    throw std::out_of_range(name);
  }

  const Graph graph = build_graph(parse_model(kBiasBeforeSoftmax));
  const Forward forward = plan_forward(graph);
  const Reference exact = run_reference(graph, forward, false);
  const double unit = unit_roundoff(GetParam());
};

TEST_P(RoundingOf, IsAFewUnitsWhereTermsAddUp) {
  Rounding rounding(graph, forward, exact, GetParam());
  const TensorId w = named("w"), y = named("y"), x = named("x");
  EXPECT_GT(rounding.of_gradient(w), 0.1 * unit * greatest(exact.parameter_gradients.at(w)));
  EXPECT_LT(rounding.of_gradient(w), 50 * unit * greatest(exact.parameter_gradients.at(w)));
  EXPECT_GT(rounding.of_value(0, y), 0.1 * unit * greatest(exact.values[0][y.at()]));
  EXPECT_LT(rounding.of_value(0, y), 10 * unit * greatest(exact.values[0][y.at()]));
  EXPECT_LT(rounding.of_input_gradient(0, x), 50 * unit * greatest(exact.input_gradients[0].at(x)));
}

TEST_P(RoundingOf, IsAllThatIsLeftWhereTermsCancel) {
  Rounding rounding(graph, forward, exact, GetParam());
  const TensorId b = named("b"), w = named("w");
  EXPECT_LT(greatest(exact.parameter_gradients.at(b)), 1e-15);
  EXPECT_GT(rounding.of_gradient(b), 1e-3 * unit * greatest(exact.parameter_gradients.at(w)));
  EXPECT_LT(rounding.of_gradient(b), 100 * unit * greatest(exact.parameter_gradients.at(w)));
}

TEST_P(RoundingOf, IsTheSameEveryTime) {
  Rounding a(graph, forward, exact, GetParam()), b(graph, forward, exact, GetParam());
  EXPECT_EQ(a.of_gradient(named("w")), b.of_gradient(named("w")));
}

INSTANTIATE_TEST_SUITE_P(Types, RoundingOf,
                         testing::Values(DType::f64, DType::f32, DType::f16, DType::bf16),
                         [](const auto& of) { return std::string(s2t::info(of.param).brief); });

TEST(Noise, MovesWhatOpsMakeAndNotWhatTheyRead) {
  const Graph graph = build_graph(parse_model(kBiasBeforeSoftmax));
  const Forward forward = plan_forward(graph);
  const Reference quiet = run_reference(graph, forward, false, DType::f32);
  const Reference loud = run_reference(graph, forward, false, DType::f32, 1);
  for (size_t v = 0; v < graph.values.size(); ++v)
    EXPECT_EQ(quiet.values[0][v] == loud.values[0][v], graph.values[v].leaf())
        << graph.values[v].name;
}

}  // namespace
}  // namespace s2t
