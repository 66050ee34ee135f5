#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/prover/instances.h"

namespace s2t::prover {
namespace {

// Axis sizes of every proof; 2 x 4 is also where the order of two axes on one factor shows.
const std::vector<std::vector<int64_t>> kOneAxis{{1}, {2}, {4}};
const std::vector<std::vector<int64_t>> kTwoAxes{{2, 2}, {2, 4}};

std::vector<Plan> plans(const Instance& in, const std::vector<int64_t>& sizes) {
  std::vector<Plan> all{{sizes, {}, {}}};
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    std::vector<Plan> longer;
    for (const Plan& plan : all)
      for (const Mode& mode : all_modes(in.bound))
        for (const bool per_rank : {false, true}) {
          // Only a redundant op tells the two conventions apart.
          if (per_rank && mode != Mode::redundant()) continue;
          longer.push_back(plan);
          longer.back().modes.push_back(mode);
          longer.back().per_rank.push_back(per_rank);
        }
    all = std::move(longer);
  }
  std::vector<Plan> possible;
  for (const Plan& plan : all)
    if (legal(in, plan)) possible.push_back(plan);
  return possible;
}

class Prover : public testing::TestWithParam<Instance> {};

TEST_P(Prover, EveryModeOfOneAxisComputesTheUnshardedOp) {
  for (const auto& sizes : kOneAxis)
    for (const Plan& plan : plans(GetParam(), sizes)) {
      const auto why = refute(GetParam(), plan);
      EXPECT_FALSE(why) << to_string(plan, GetParam().bound) << ": " << *why;
    }
}

TEST_P(Prover, EveryPairOfModesOnTwoAxesComputesTheUnshardedOp) {
  for (const auto& sizes : kTwoAxes)
    for (const Plan& plan : plans(GetParam(), sizes)) {
      const auto why = refute(GetParam(), plan);
      EXPECT_FALSE(why) << to_string(plan, GetParam().bound) << ": " << *why;
    }
}

// Values that `saved` does not name may be overwritten before the backward; values that it names
// matter.
std::optional<Tensor> gradient(const Instance& in, const std::vector<Tensor>& inputs,
                               const std::vector<Tensor>& outputs, size_t operand) {
  std::mt19937_64 random{3};
  std::vector<std::optional<Tensor>> dy;
  for (const Tensor& y : outputs) dy.push_back(random_tensor(y.shape(), in.exact, random));
  return backward(in.call(whole_view(in.bound)), inputs, outputs, dy, in.wanted())[operand];
}

Tensor other_values(const Instance& in, size_t operand) {
  std::mt19937_64 random{99 + operand};
  const Tensor& t = in.inputs[operand];
  if (is_differentiable(t.dtype())) {
    auto x = random_tensor(t.shape(), false, random).read<double>();
    for (double& e : x) e = std::fabs(e) + 0.25;  // legal wherever a kernel takes a logarithm
    return Tensor::of(t.shape(), t.dtype(), x);
  }
  auto ids = t.read<int64_t>();
  std::reverse(ids.begin(), ids.end());
  Tensor out(t.shape(), t.dtype());
  out.write<int64_t>(ids);
  return out;
}

TEST_P(Prover, GradientsReadTheSavedValuesAndNoOthers) {
  const Instance& in = GetParam();
  const auto outputs = forward(in.call(whole_view(in.bound)), in.inputs);
  for (size_t i = 0; i < in.inputs.size(); ++i) {
    if (!in.wanted()[i]) continue;
    const auto needs = saved_for(in.op, in.rule, i);
    const Tensor expected = *gradient(in, in.inputs, outputs, i);
    for (size_t j = 0; j < in.inputs.size(); ++j) {
      auto changed = in.inputs;
      changed[j] = other_values(in, j);
      if (std::find(needs.begin(), needs.end(), j) == needs.end()) {
        EXPECT_TRUE(*gradient(in, changed, outputs, i) == expected)
            << "the gradient of operand " << i << " reads operand " << j;
      } else {
        const auto new_outputs = forward(in.call(whole_view(in.bound)), changed);
        EXPECT_FALSE(*gradient(in, changed, new_outputs, i) == expected)
            << "the gradient of operand " << i << " does not need operand " << j;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OpTable, Prover, testing::ValuesIn(instances()), [](const auto& instance) {
  std::string name = instance.param.name;
  std::replace(name.begin(), name.end(), '#', '_');
  return name;
});

// Nothing above may pass because it never ran: every factor that is not whole is split over 2 and
// over 4, and every linear group used, in some instance of each row.
TEST(ProverCoverage, EveryFactorAndLinearGroupOfEveryRowIsProved) {
  std::map<std::string, std::set<std::string>> wanted, seen;
  for (const Instance& in : instances())
    for (const int64_t n : {int64_t{2}, int64_t{4}})
      for (const Mode& mode : all_modes(in.bound)) {
        const Plan plan{{n}, {mode}, {false}};
        if (mode.kind == Mode::Kind::split && in.bound.factors[mode.factor.at()].whole) continue;
        // Minor factors of a compound dim are proved where the major one has size 1, or in pairs.
        const std::string what = to_string(plan, in.bound);
        const std::string key = in.name.substr(0, in.name.find('#')) + " " + in.rule.text;
        wanted[key].insert(what);
        if (legal(in, plan)) seen[key].insert(what);
        for (const Mode& major : all_modes(in.bound))
          if (legal(in, {{2, n}, {major, mode}, {false, false}})) seen[key].insert(what);
      }
  for (const auto& [op, modes] : wanted)
    for (const std::string& mode : modes)
      EXPECT_TRUE(seen[op].count(mode)) << op << ": never proved in " << mode;
}

}  // namespace
}  // namespace s2t::prover
