#include "runtime/tape/tape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/base/diagnostics.h"
#include "analyzer/io/model_json.h"
#include "runtime/device/host_device.h"

namespace s2t {
namespace {

using testing::ElementsAre;

// Rank 0 of a model with one tape: leaves hold given numbers, conversions change nothing and are
// written down together with the nodes that run.
class OneTape {
 public:
  OneTape(const std::string& model, std::map<std::string, Tensor> leaves)
      : graph_(build_graph(parse_model(model))),
        forward_(plan_forward(graph_)),
        leaves_(std::move(leaves)),
        tape_(graph_, forward_, surroundings()) {
    for (size_t o = 0; o < graph_.ops.size(); ++o) tape_.run(OpId(o));
  }

  void backward() { tape_.backward({tape_.loss_root()}); }
  std::vector<std::string> planned() {
    std::vector<std::string> names;
    for (const OpId op : tape_.plan_backward({tape_.loss_root()}))
      names.push_back(graph_.op(op).name);
    return names;
  }
  Tensor value(const std::string& name) const { return tape_.value(id(name)); }
  Tensor input_gradient(const std::string& name) const {
    return tape_.leaf_gradients().at(id(name)).data;
  }
  bool has_input_gradient(const std::string& name) const {
    return tape_.leaf_gradients().count(id(name)) != 0;
  }

  std::map<std::string, std::vector<Gradient>> ready;  // parameters, as they were handed over
  std::vector<std::string> log;

 private:
  TensorId id(const std::string& name) const {
    for (size_t v = 0; v < graph_.values.size(); ++v)
      if (graph_.values[v].name == name) return TensorId(v);
    throw std::out_of_range(name);
  }

  Tape::Surroundings surroundings() {
    Tape::Surroundings around;
    around.leaf = [this](TensorId t) { return leaves_.at(graph_.value(t).name); };
    around.convert = [this](TensorId t, Tensor data, std::span<const Step> steps, bool backward) {
      for (const Step& s : steps)
        if (s.collective)
          log.push_back(std::string(backward ? "backward " : "forward ") +
                        std::string(info(*s.collective).name) + " of " + graph_.value(t).name);
      return data;
    };
    around.op = [this](OpId op) {
      return LocalOp(graph_, forward_, op, Rank(0), 0, host_device());
    };
    around.before_backward = [this](OpId op) { log.push_back(graph_.op(op).name); };
    around.parameter_ready = [this](TensorId p, std::vector<Gradient> arrived) {
      log.push_back(graph_.value(p).name + " is ready");
      ready[graph_.value(p).name] = std::move(arrived);
    };
    return around;
  }

  Graph graph_;
  Forward forward_;
  std::map<std::string, Tensor> leaves_;
  Tape tape_;
};

std::string alone(const std::string& tensors, const std::string& ops) {
  return R"({"schema": "shape2trace.model/1", "name": "t", "mesh": {"axes": [{"name": "tp", "size": 1}]},
            "tensors": {)" +
         tensors + R"(}, "ops": [)" + ops + R"(], "loss": "loss"})";
}

Tensor square(std::initializer_list<double> elements) {
  return Tensor::of({2, 2}, DType::f32, elements);
}
const std::string kX = R"("x": {"shape": [2, 2], "requires_grad": true})";
const std::string kW = R"("w": {"shape": [2, 2], "parameter": true})";
const std::string kFrozen = R"("w": {"shape": [2, 2], "parameter": true, "requires_grad": false})";
const std::string kLinear =
    R"({"op": "linear", "name": "fc", "inputs": ["x", "w"], "output": "y"})";
const std::string kLoss =
    R"({"op": "mean_square", "name": "ms", "inputs": ["y"], "output": "loss"})";

std::map<std::string, Tensor> numbers() {
  return {{"x", square({1, 2, 3, 4})}, {"w", square({1, 0, 0, 1})}};
}

// y = x, loss = (1 + 4 + 9 + 16) / 4, dy = y / 2, dw = dy' x, dx = dy w.
TEST(Tape, GradientsOfALinearMapAreThoseOnPaper) {
  OneTape t(alone(kX + "," + kW, kLinear + "," + kLoss), numbers());
  EXPECT_EQ(t.value("loss").at(0), 7.5);
  t.backward();
  ASSERT_EQ(t.ready.at("w").size(), 1u);
  EXPECT_EQ(t.ready.at("w")[0].data, square({5, 7, 7, 10}));
  EXPECT_EQ(t.input_gradient("x"), square({0.5, 1, 1.5, 2}));
}

TEST(Tape, AFrozenWeightIsNotReadyAndStillPassesOn) {
  OneTape t(alone(kX + "," + kFrozen, kLinear + "," + kLoss), numbers());
  t.backward();
  EXPECT_TRUE(t.ready.empty());
  EXPECT_EQ(t.input_gradient("x"), square({0.5, 1, 1.5, 2}));
}

TEST(Tape, WhatNobodyNeedsDoesNotRun) {
  const std::string before =
      R"({"op": "gelu", "name": "act", "inputs": ["z"], "output": "x"},)" + kLinear + "," + kLoss;
  auto leaves = numbers();
  leaves["z"] = square({1, 1, 1, 1});
  OneTape t(alone(R"("z": {"shape": [2, 2]},)" + kW, before), leaves);
  EXPECT_THAT(t.planned(), ElementsAre("ms", "fc"));
  t.backward();
  EXPECT_THAT(t.log, ElementsAre("ms", "fc", "w is ready"));
  EXPECT_FALSE(t.has_input_gradient("z"));
}

// loss = mean((x w' + x)^2): both ways to x add up, 2 y / 4 of each with y = 2 x.
TEST(Tape, GradientsOfTwoUsesAddUp) {
  const std::string ops = R"({"op": "linear", "name": "fc", "inputs": ["x", "w"], "output": "u"},
    {"op": "add", "name": "sum", "inputs": ["u", "x"], "output": "y"},)" +
                          kLoss;
  OneTape t(alone(kX + "," + kFrozen, ops), numbers());
  t.backward();
  EXPECT_EQ(t.input_gradient("x"), square({2, 4, 6, 8}));
}

TEST(Tape, AWeightUsedTwiceIsReadyOnceWithTheSum) {
  const std::string ops = R"({"op": "linear", "name": "a", "inputs": ["x", "w"], "output": "u"},
    {"op": "linear", "name": "b", "inputs": ["u", "w"], "output": "y"},)" +
                          kLoss;
  OneTape t(alone(kX + "," + kW, ops), numbers());
  t.backward();
  EXPECT_THAT(t.log, ElementsAre("ms", "b", "a", "w is ready"));
  ASSERT_EQ(t.ready.at("w").size(), 1u);
  EXPECT_EQ(t.ready.at("w")[0].data, square({10, 14, 14, 20}));
}

TEST(Tape, AValueIsMadeBeforeItIsRead) {
  const Graph graph = build_graph(parse_model(alone(kX + "," + kW, kLinear + "," + kLoss)));
  const Forward forward = plan_forward(graph);
  Tape::Surroundings around;
  around.op = [&](OpId op) { return LocalOp(graph, forward, op, Rank(0), 0, host_device()); };
  Tape tape(graph, forward, std::move(around));
  EXPECT_THROW(tape.run(OpId(size_t{1})), Fault);
}

// Column then row: the result is a sum of terms, and so is the gradient of the input.
std::vector<std::string> column_then_row(const std::string& convention) {
  const std::string model = R"json({"schema": "shape2trace.model/1", "name": "t",
    "mesh": {"axes": [{"name": "tp", "size": 2}]}, "convention": ")json" +
                            convention + R"json(",
    "tensors": {"x": {"shape": [2, 2], "requires_grad": true},
                "w1": {"shape": [4, 2], "parameter": true, "layout": {"tp": "S(0)"}},
                "w2": {"shape": [2, 4], "parameter": true, "layout": {"tp": "S(1)"}}},
    "ops": [{"op": "linear", "name": "up", "inputs": ["x", "w1"], "output": "h"},
            {"op": "linear", "name": "down", "inputs": ["h", "w2"], "output": "y"},
            {"op": "mean_square", "name": "ms", "inputs": ["y"], "output": "loss",
             "modes": {"tp": "redundant"}}],
    "loss": "loss"})json";
  OneTape t(
      model,
      {{"x", square({1, 2, 3, 4})}, {"w1", square({1, 0, 0, 1})}, {"w2", square({1, 0, 0, 1})}});
  EXPECT_THAT(t.log, ElementsAre("forward all_reduce of y"));
  t.log.clear();
  t.backward();
  return t.log;
}

// The loss is one, computed twice: every rank has the whole gradient of y, and a term of that of x,
// which is a leaf and gets the whole at the end.
TEST(Tape, OfOneLossTheGradientOfTheInputIsSummed) {
  EXPECT_THAT(column_then_row("global"), ElementsAre("ms", "down", "w2 is ready", "up",
                                                     "w1 is ready", "backward all_reduce of x"));
}

// The losses add up: the gradient of y is summed where the node that made it begins; a leaf keeps
// its term.
TEST(Tape, OfALossPerRankTheGradientOfTheSumIsSummed) {
  EXPECT_THAT(column_then_row("per_rank"), ElementsAre("ms", "down", "backward all_reduce of y",
                                                       "w2 is ready", "up", "w1 is ready"));
}

}  // namespace
}  // namespace s2t
