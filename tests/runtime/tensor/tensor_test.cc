#include "runtime/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "analyzer/base/diagnostics.h"
#include "runtime/tensor/op_view.h"

namespace s2t {
namespace {

using testing::ElementsAre;

TEST(Tensor, TakesTheBytesOfItsDtype) {
  for (const DTypeInfo& d : dtypes()) EXPECT_EQ(Tensor({3, 5}, d.dtype).byte_size(), 15 * d.bytes);
}

TEST(Tensor, CopiesShareUntilOneIsWritten) {
  Tensor a = Tensor::of({2}, DType::f32, {1, 2});
  const Tensor b = a;
  EXPECT_EQ(a.bytes(), b.bytes());
  a.write<double>(std::vector<double>{3, 4});
  EXPECT_THAT(b.read<double>(), ElementsAre(1, 2));
  EXPECT_THAT(a.read<double>(), ElementsAre(3, 4));
}

TEST(Tensor, WritingRoundsToNearestEven) {
  EXPECT_EQ(Tensor::of({1}, DType::bf16, {1.00390625}).at(0), 1.0);       // 1 + 2^-8: a tie
  EXPECT_EQ(Tensor::of({1}, DType::bf16, {1.01171875}).at(0), 1.015625);  // 1 + 3/256: a tie
  EXPECT_EQ(Tensor::of({1}, DType::f16, {65519}).at(0), 65504.0);
  EXPECT_EQ(Tensor::of({1}, DType::f16, {65520}).at(0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(Tensor::of({1}, DType::f8, {464}).at(0), 448.0);
  EXPECT_TRUE(std::isnan(Tensor::of({1}, DType::f8, {465}).at(0)));
}

TEST(Tensor, EveryFloat8SurvivesTheRoundTrip) {
  for (int bits = 0; bits < 256; ++bits) {
    Tensor t({1}, DType::f8);
    *t.writable_bytes() = static_cast<std::byte>(bits);
    const double x = t.at(0);
    if (std::isnan(x)) continue;
    EXPECT_EQ(static_cast<int>(*Tensor::of({1}, DType::f8, {x}).bytes()), bits);
  }
}

TEST(Tensor, IntegersKeepAll64Bits) {
  const int64_t big = (int64_t{1} << 53) + 1;
  Tensor t({1}, DType::i64);
  t.write<int64_t>(std::vector<int64_t>{big});
  EXPECT_THAT(t.read<int64_t>(), ElementsAre(big));
}

TEST(Tensor, SlicesPasteBack) {
  const Tensor t = Tensor::of({2, 4}, DType::f32, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_THAT(slice(t, 1, 1, 2).read<double>(), ElementsAre(1, 2, 5, 6));
  Tensor back({2, 4}, DType::f32);
  for (int i = 0; i < 4; ++i) paste(back, slice(t, 1, i, 1), 1, i);
  EXPECT_EQ(back, t);
}

TEST(Tensor, ASliceOutsideIsAFault) {
  const Tensor t({2, 4}, DType::f32);
  EXPECT_THROW(slice(t, 1, 3, 2), Fault);
  EXPECT_THROW(slice(t, 2, 0, 1), Fault);
  EXPECT_THROW(add(t, Tensor({4, 2}, DType::f32)), Fault);
  EXPECT_THROW(Tensor::of({3}, DType::f32, {1, 2}), Fault);
}

TEST(Tensor, DifferencesOfUnequalShapesAndOfNaNAreInfinite) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor a = Tensor::of({2}, DType::f64, {1, 2});
  EXPECT_EQ(max_abs_difference(a, Tensor::of({2}, DType::f64, {1, 2.5})), 0.5);
  EXPECT_EQ(max_abs_difference(a, Tensor({3}, DType::f64)), inf);
  EXPECT_EQ(max_abs_difference(a, Tensor::of({2}, DType::f64, {NAN, 2})), inf);
  EXPECT_EQ(max_abs_difference(a, Tensor::of({2}, DType::f64, {1, NAN})), inf);
}

TEST(OpView, AtomsThatSplitOneFactorCutItSlowestFirst) {
  std::string error;
  const auto rule = bind_rule(*parse_rule("x[a b] -> y[a b]", error), {{16, 3}}, {}, error);
  const Mesh mesh({{"dp", 2, AxisKind::data, {}}, {"tp", 4, AxisKind::model, {}}}, {});
  const Mode split = Mode::split(rule->find("a").value());
  const OpView view = local_view(*rule, std::vector<Mode>{split, split}, mesh, Rank(6));
  EXPECT_EQ(operand_shape(view.rule, 0), (Shape{2, 3}));
  EXPECT_THAT(view.offset, ElementsAre(12, 0));
  EXPECT_THAT(view.global, ElementsAre(16, 3));
}

TEST(OpView, UnevenBlocksAreRoundedUpAndTheLastMayBeEmpty) {
  std::string error;
  const auto rule = bind_rule(*parse_rule("x[a] -> y[a]", error), {{5}}, {}, error);
  const Mesh mesh({{"tp", 4, AxisKind::model, {}}}, {});
  const std::vector<Mode> modes{Mode::split(rule->find("a").value())};
  std::vector<int64_t> sizes;
  for (int r = 0; r < 4; ++r)
    sizes.push_back(operand_shape(local_view(*rule, modes, mesh, Rank(r)).rule, 0)[0]);
  EXPECT_THAT(sizes, ElementsAre(2, 2, 1, 0));
}

}  // namespace
}  // namespace s2t
