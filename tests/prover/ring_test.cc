// The mode that the pairs of prover_test.cc lack: in a ring the parts of some operands pass by every
// rank. What is proved is that its ports are enough: with all parts seen, each rank's kernel makes
// its part of the result; and the terms of a passing operand's gradient, added up on the way, are
// that operand's, part by part. The order of the messages is proved where they run (comm/ring.h).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/prover/instances.h"

namespace s2t::prover {
namespace {

constexpr double kTolerance = 1e-10;

class Ring {
 public:
  Ring(const Instance& in, int64_t ranks)
      : in_(in),
        stays_(in.bound.find("s").value()),
        mode_(Mode::ring(stays_, in.bound.find("t").value())),
        mesh_({{"axis0", ranks, AxisKind::data, {}}}, {}) {
    for (int64_t r = 0; r < ranks; ++r)
      calls_.push_back(in.call(local_view(in.bound, std::vector{Mode::split(stays_)}, mesh_,
                                          Rank(static_cast<int32_t>(r)))));
  }

  void prove() {
    const OpCall whole = in_.call(whole_view(in_.bound));
    const std::vector<Tensor> outputs = s2t::forward(whole, in_.inputs);
    for (size_t r = 0; r < calls_.size(); ++r) {
      inputs_.push_back(seen_by(r));
      outputs_.push_back(s2t::forward(calls_[r], inputs_[r]));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::vector<Tensor> parts;
      for (const auto& of_rank : outputs_) parts.push_back(of_rank[i]);
      expect_same(together(parts, result_port(in_.bound, mode_, i)), outputs[i], "result", i);
    }
    backward(whole, outputs);
  }

 private:
  using Gradients = std::vector<std::optional<Tensor>>;

  Layout over(Placement p) const {
    Layout layout(1);
    layout[AtomIndex(0)] = p;
    return layout;
  }
  Placement port(size_t i) const { return operand_port(in_.bound, mode_, i); }
  bool passes(size_t i) const {
    return dim_of(in_.bound.operands[i], mode_.passing) && !dim_of(in_.bound.operands[i], stays_);
  }

  std::vector<Tensor> dealt(const Tensor& t, Placement p) {
    return scatter(t, over(p), mesh_, false, random_);
  }
  Tensor together(const std::vector<Tensor>& parts, Placement p) const {
    std::string error;
    const Tensor t = gather(parts, over(p), mesh_, kTolerance, error);
    EXPECT_EQ(error, "");
    return t;
  }
  void expect_same(const Tensor& found, const Tensor& expected, const char* what, size_t i) const {
    EXPECT_LE(max_abs_difference(found, expected), kTolerance)
        << in_.name << ", " << what << " " << i << " over " << mesh_.world();
  }

  // Its own part of what stays, all parts of what passes by.
  std::vector<Tensor> seen_by(size_t rank) {
    std::vector<Tensor> seen;
    for (size_t i = 0; i < in_.inputs.size(); ++i) {
      const auto parts = dealt(in_.inputs[i], port(i));
      seen.push_back(passes(i) ? together(parts, port(i)) : parts[rank]);
    }
    return seen;
  }

  void backward(const OpCall& whole, const std::vector<Tensor>& outputs) {
    const std::vector<bool> wanted = in_.wanted();
    const Tensor dy = random_tensor(outputs[0].shape(), false, random_);
    const Placement home = cotangent(result_port(in_.bound, mode_, 0), false, false);
    const Gradients expected = s2t::backward(whole, in_.inputs, outputs, Gradients{dy}, wanted);
    const std::vector<Tensor> dys = dealt(dy, home);
    std::vector<Gradients> found;
    for (size_t r = 0; r < calls_.size(); ++r)
      found.push_back(s2t::backward(calls_[r], inputs_[r], outputs_[r], Gradients{dys[r]}, wanted));
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      std::vector<Tensor> parts;
      for (const Gradients& of_rank : found) parts.push_back(of_rank[i].value());
      if (passes(i))
        parts = dealt(together(parts, Placement::P()), cotangent(port(i), false, false));
      expect_same(together(parts, cotangent(port(i), false, false)), expected[i].value(),
                  "gradient", i);
    }
  }

  const Instance& in_;
  FactorIndex stays_;
  Mode mode_;
  Mesh mesh_;
  std::mt19937_64 random_{7};
  std::vector<OpCall> calls_;
  std::vector<std::vector<Tensor>> inputs_, outputs_;  // [rank]
};

TEST(ProverOfRings, PartsThatPassByEveryRankAreEnoughInBothDirections) {
  int proved = 0;
  for (const Instance& in : instances())
    for (const int64_t ranks : {2, 4}) {
      if (in.op.ring.empty()) continue;
      const int64_t s = in.bound.factors[in.bound.find("s").value().at()].size;
      const int64_t t = in.bound.factors[in.bound.find("t").value().at()].size;
      if (s % ranks != 0 || t % ranks != 0) continue;
      Ring(in, ranks).prove();
      ++proved;
    }
  EXPECT_GE(proved, 2);
}

}  // namespace
}  // namespace s2t::prover
