// The matrix products recognised among contractions must be what the plain loops compute.
#include "runtime/tensor/rows/gemm_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runtime/device/host_device.h"
#include "runtime/tensor/host_run.h"
#include "runtime/tensor/rows/dispatch.h"
#include "tests/prover/instances.h"

namespace s2t::prover {
namespace {

// The host's loops, except for products, which its device computes; counts them.
class ProductRun : public HostRun {
 public:
  template <class T>
  void contract(const Contract<T>& c) {
    if (const auto product = as_gemm(c)) {
      ++products;
      host_device().gemm(*product);
    } else {
      items(c.items(), c);
    }
  }
  int products = 0;
};

class Products : public testing::TestWithParam<Instance> {};

TEST_P(Products, ComputeWhatTheLoopsCompute) {
  const Instance& in = GetParam();
  const OpCall call = in.call(whole_view(in.bound));
  ProductRun run;
  const auto expected = forward(call, in.inputs), found = forward_on(run, call, in.inputs);
  std::mt19937_64 random{4};
  std::vector<std::optional<Tensor>> dy;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(max_abs_difference(found[i], expected[i]), 1e-11) << "result " << i;
    dy.push_back(random_tensor(expected[i].shape(), in.exact, random).cast(expected[i].dtype()));
  }
  const auto on_host = backward(call, in.inputs, expected, dy, in.wanted());
  const auto by_products = backward_on(run, call, in.inputs, expected, dy, in.wanted());
  for (size_t i = 0; i < on_host.size(); ++i) {
    ASSERT_EQ(by_products[i].has_value(), on_host[i].has_value());
    if (on_host[i]) {
      EXPECT_LE(max_abs_difference(*by_products[i], *on_host[i]), 1e-11) << "gradient " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OpTable, Products, testing::ValuesIn(instances()),
                         [](const auto& instance) {
                           std::string name = instance.param.name;
                           std::replace(name.begin(), name.end(), '#', '_');
                           return name;
                         });

TEST(Products, DenseLayersAndTheirGradientsAreProducts) {
  for (const Instance& in : instances()) {
    if (in.op.name != "linear" && in.op.name != "matmul") continue;
    const OpCall call = in.call(whole_view(in.bound));
    ProductRun run;
    const auto y = forward_on(run, call, in.inputs);
    backward_on(run, call, in.inputs, y, std::vector<std::optional<Tensor>>{y[0]}, {true, true});
    EXPECT_EQ(run.products, 3) << in.name;
  }
}

// y[m n] += a[m k] b[k n], all sizes 2, with these strides.
struct Strides {
  int64_t row, column;
};
Contract<double> product(const double* a, Strides of_a, const double* b, Strides of_b, double* y) {
  Contract<double> c;
  c.out_factors = c.terms = 2;
  c.factors = 3;
  std::fill_n(c.size, 3, 2);
  const int64_t out[] = {2, 1, 0}, in_a[] = {of_a.row, 0, of_a.column},
                in_b[] = {0, of_b.column, of_b.row};
  std::copy_n(out, 3, c.out_stride);
  std::copy_n(in_a, 3, c.in_stride[0]);
  std::copy_n(in_b, 3, c.in_stride[1]);
  c.in[0] = a;
  c.in[1] = b;
  c.out = y;
  return c;
}

TEST(Products, AreNoneWhereAMatrixHasNoUnitStride) {
  const double a[8] = {}, b[8] = {};
  double y[4] = {};
  EXPECT_TRUE(as_gemm(product(a, {2, 1}, b, {1, 2}, y)));
  EXPECT_FALSE(as_gemm(product(a, {4, 2}, b, {2, 1}, y)));
}

TEST(Products, AddToWhatIsThere) {
  const double a[] = {1, 2, 3, 4}, b[] = {1, 0, 0, 1};
  double y[] = {10, 10, 10, 10};
  const auto g = as_gemm(product(a, {2, 1}, b, {2, 1}, y));
  ASSERT_TRUE(g);
  host_device().gemm(*g);
  EXPECT_EQ(std::vector<double>(y, y + 4), (std::vector<double>{11, 12, 13, 14}));
}

}  // namespace
}  // namespace s2t::prover
