// The arithmetic that every backend shares.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "runtime/device/float16.h"
#include "runtime/device/host_device.h"

// Under a sanitizer an allocation that cannot be had is null too, not the end of the program.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}

namespace s2t {
namespace {

TEST(Float16, EveryFiniteHalfSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 h{static_cast<uint16_t>(bits)};
    if (std::isnan(widen(h))) continue;
    ASSERT_EQ(narrow_f16(widen(h)).bits, bits);
  }
}

TEST(Float16, RoundsToNearestEven) {
  EXPECT_EQ(widen(narrow_f16(2049)), 2048);  // halfway between 2048 and 2050
  EXPECT_EQ(widen(narrow_f16(2051)), 2052);
  EXPECT_EQ(narrow_f16(65520).bits, 0x7c00);  // halfway beyond the largest
  EXPECT_EQ(widen(narrow_f16(65519)), 65504);
  EXPECT_EQ(narrow_f16(0x1p-25f).bits, 0);  // halfway to the smallest subnormal
  EXPECT_EQ(narrow_f16(0x1.8p-25f).bits, 1);
  EXPECT_TRUE(std::isnan(widen(narrow_f16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(BFloat16, RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(widen(narrow_bf16(257)), 256);
  EXPECT_EQ(widen(narrow_bf16(259)), 260);
  EXPECT_TRUE(std::isnan(widen(narrow_bf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(widen(narrow_bf16(std::numeric_limits<float>::max()))));
}

TEST(HostDevice, GemmMultipliesAllFourTranspositions) {
  // [1 2 3; 4 5 6] x [1 0; 0 1; 1 1] = [4 5; 10 11]
  const std::vector<float> a{1, 2, 3, 4, 5, 6}, at{1, 4, 2, 5, 3, 6};
  const std::vector<float> b{1, 0, 0, 1, 1, 1}, bt{1, 0, 1, 0, 1, 1};
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      std::vector<float> c(4, 1);
      Gemm g;
      g.transpose_a = ta;
      g.transpose_b = tb;
      g.m = g.n = 2;
      g.k = 3;
      g.a = ta ? at.data() : a.data();
      g.b = tb ? bt.data() : b.data();
      g.c = c.data();
      g.lda = ta ? 2 : 3;
      g.ldb = tb ? 3 : 2;
      g.ldc = 2;
      g.beta = 1;
      host_device().gemm(g);
      EXPECT_EQ(c, (std::vector<float>{5, 6, 11, 12})) << ta << tb;
    }
}

TEST(HostDevice, GemmWalksABatch) {
  const std::vector<double> a{1, 2, 3}, b{10, 20, 30};
  std::vector<double> c(3);
  Gemm g;
  g.dtype = DType::f64;
  g.m = g.n = g.k = g.lda = g.ldb = g.ldc = 1;
  g.batch = 3;
  g.stride_a = g.stride_b = g.stride_c = 1;
  g.a = a.data();
  g.b = b.data();
  g.c = c.data();
  host_device().gemm(g);
  EXPECT_EQ(c, (std::vector<double>{10, 40, 90}));
}

TEST(HostDevice, FreshMemoryIsPoisonedWithNaN) {
  const DeviceBuffer buffer(host_device(), 8);
  float x = 0;
  host_device().copy_out(&x, buffer.data(), sizeof x);
  EXPECT_TRUE(std::isnan(x));
}

TEST(HostDevice, TooMuchMemoryIsAnErrorThatSaysHowMuch) {
  try {
    host_device().allocate(size_t{1} << 62);
    FAIL();
  } catch (const DeviceError& e) {
    EXPECT_EQ(std::string(e.what()), "out of memory: 4,611,686,018,427,387,904 bytes on host");
  }
}

TEST(Combine, IntegersWrapAndBooleansAreLogical) {
  int32_t a = std::numeric_limits<int32_t>::max(), one = 1;
  combine_on_host(&a, &one, 1, DType::i32, ReduceOp::sum);
  EXPECT_EQ(a, std::numeric_limits<int32_t>::min());
  uint8_t yes = 1, no = 0;
  combine_on_host(&yes, &no, 1, DType::boolean, ReduceOp::sum);
  EXPECT_EQ(yes, 1);
  combine_on_host(&yes, &no, 1, DType::boolean, ReduceOp::min);
  EXPECT_EQ(yes, 0);
  EXPECT_THROW(combine_on_host(&a, &one, 1, DType::i32, ReduceOp::avg), DeviceError);
  EXPECT_THROW(combine_on_host(&yes, &no, 1, DType::f8, ReduceOp::sum), DeviceError);
}

}  // namespace
}  // namespace s2t
