// What only the NCCL module has: a GPU for a device, and the faults of a GPU. Runs on the
// stand-ins, which play these faults when asked (tests/standins/fault.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "runtime/comm/backend.h"
#include "runtime/device/float16.h"
#include "runtime/device/host_device.h"
#include "tests/runtime/comm/conformance.h"

#ifndef S2T_NVTX_LISTENER  // without CUDA these tests are compiled, but not registered
#define S2T_NVTX_LISTENER ""
#endif

namespace s2t {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

RunOptions options_for(int size, const std::string& fault = "") {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  RunOptions options;
  options.world_size = size;
  options.timeout = 2s;
  options.arguments = {std::string("--gtest_filter=") + test->test_suite_name() + "." +
                       test->name()};
  if (!fault.empty()) options.environment["S2T_STANDIN_FAULT"] = fault;
  return options;
}

class NcclModule : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(nccl_.probe().stand_in) << nccl_.probe().why; }
  const Backend& nccl_ = *find_backend("nccl");

  // Three all-reduces whose results are looked at, so that no error can hide on the GPU.
  RunResult sum_with(const std::string& fault) const {
    return nccl_.run(options_for(2, fault), [](World& world) {
      auto all = world.create_group("all", ranks_of_world(world));
      const DeviceBuffer x(world.device(), 64);
      for (int i = 0; i < 3; ++i) {
        float y[16] = {};
        world.device().copy_in(x.data(), y, sizeof y);
        all->all_reduce(x.data(), x.data(), 16, DType::f32);
        world.device().copy_out(y, x.data(), sizeof y);
      }
      return std::string();
    });
  }
  static void expect_cause(const RunResult& result, CommReason reason, const std::string& text) {
    ASSERT_EQ(result.failures.size(), 2u) << result.output;
    EXPECT_EQ(name_of(result.failures[0].reason), name_of(reason));
    EXPECT_THAT(result.failures[0].text, HasSubstr(text));
  }
};

// One product on both devices; whole numbers, so that every order of adding agrees.
template <class T>
std::string compare_gemm(Device& device, DType dtype, T (*make)(float), bool ta, bool tb) {
  constexpr int64_t m = 3, n = 5, k = 4, batch = 2;
  std::mt19937 random(1);
  const auto numbers = [&](int64_t count) {
    std::vector<T> v;
    for (int64_t i = 0; i < count * batch; ++i)
      v.push_back(make(static_cast<float>(random() % 7) - 3));
    return v;
  };
  const std::vector<T> a = numbers(m * k), b = numbers(k * n);
  const auto run = [&](Device& on) {
    std::vector<T> c = a;
    c.assign(m * n * batch, make(2));
    const DeviceBuffer da(on, a.size() * sizeof(T)), db(on, b.size() * sizeof(T)),
        dc(on, c.size() * sizeof(T));
    on.copy_in(da.data(), a.data(), da.bytes());
    on.copy_in(db.data(), b.data(), db.bytes());
    on.copy_in(dc.data(), c.data(), dc.bytes());
    Gemm g;
    g.dtype = dtype;
    g.transpose_a = ta;
    g.transpose_b = tb;
    g.m = m;
    g.n = n;
    g.k = k;
    g.a = da.data();
    g.b = db.data();
    g.c = dc.data();
    g.lda = ta ? m : k;
    g.ldb = tb ? k : n;
    g.ldc = n;
    g.batch = batch;
    g.stride_a = m * k;
    g.stride_b = k * n;
    g.stride_c = m * n;
    g.alpha = 2;
    g.beta = 1;
    on.gemm(g);
    on.copy_out(c.data(), dc.data(), dc.bytes());
    return c;
  };
  const std::vector<T> here = run(host_device()), there = run(device);
  const bool same = std::memcmp(here.data(), there.data(), here.size() * sizeof(T)) == 0;
  return same ? "" : "the product of " + std::string(info(dtype).name) + " differs; ";
}

TEST_F(NcclModule, ItsMatrixProductIsTheHosts) {
  const RunResult result = nccl_.run(options_for(1), [](World& world) {
    std::string wrong;
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        wrong += compare_gemm<float>(
            world.device(), DType::f32, [](float x) { return x; }, ta, tb);
        wrong += compare_gemm<Float16>(world.device(), DType::f16, narrow_f16, ta, tb);
        wrong += compare_gemm<BFloat16>(world.device(), DType::bf16, narrow_bf16, ta, tb);
      }
    return wrong;
  });
  if (!result.reports) return;
  ASSERT_TRUE(result.ok()) << result.failures[0].text;
  EXPECT_EQ(result.results[0], "");
}

TEST_F(NcclModule, SeveralRanksShareOneGpu) {
  RunOptions options = options_for(3);
  options.timeout = 30s;
  options.environment["CUDA_VISIBLE_DEVICES"] = "0";
  const RunResult result = nccl_.run(options, conformance::run_all);
  if (!result.reports) return;
  for (const RankFailure& f : result.failures) ADD_FAILURE() << f.text;
  EXPECT_EQ(result.results, std::vector<std::string>(3, ""));
}

TEST_F(NcclModule, AProfilerSeesARangePerCallWithEventAndGroup) {
  const std::string file = testing::TempDir() + "s2t_nvtx_ranges";
  RunOptions options = options_for(1);
  options.environment["S2T_NVTX_FILE"] = file;
  options.environment["NVTX_INJECTION64_PATH"] = S2T_NVTX_LISTENER;
  const RunResult result = nccl_.run(options, [](World& world) {
    auto tp = world.create_group("tp0", ranks_of_world(world));
    const DeviceBuffer x(world.device(), 64);
    world.annotate({"forward", "event 12"});
    tp->all_reduce(x.data(), x.data(), 16, DType::f32);
    world.annotate({"backward", "event 13"});
    tp->broadcast(x.data(), x.data(), 16, DType::f32, 0);
    return std::string();
  });
  if (!result.reports) return;
  ASSERT_TRUE(result.ok()) << result.failures[0].text;
  std::stringstream ranges;
  ranges << std::ifstream(file).rdbuf();
  std::remove(file.c_str());
  EXPECT_EQ(ranges.str(), "event 12 all_reduce tp0\nevent 13 broadcast tp0\n");
}

TEST_F(NcclModule, RunningOutOfMemoryEndsTheRunWithTheNumber) {
  const RunResult result = nccl_.run(options_for(2, "oom=1000000"), [](World& world) {
    auto all = world.create_group("all", ranks_of_world(world));
    if (world.rank() == Rank(1)) DeviceBuffer(world.device(), 2'000'000);
    all->barrier();
    return std::string();
  });
  if (!result.reports) return;
  expect_cause(result, CommReason::died, "out of memory: 2,000,000 bytes on cuda");
  EXPECT_EQ(result.failures[0].rank, Rank(1));
}

TEST_F(NcclModule, AKernelThatNeverEndsTimesOut) {
  const RunResult result = sum_with("stall=1:2");
  if (result.reports) expect_cause(result, CommReason::timeout, "the GPU did not end its work");
}

TEST_F(NcclModule, ARankThatDiesInItsKernelIsNamed) {
  const RunResult result = sum_with("die=1:2");
  if (!result.reports) return;
  ASSERT_EQ(result.failures.size(), 2u);
  EXPECT_THAT(result.failures[0].text + result.failures[1].text, HasSubstr("signal 9"));
}

TEST_F(NcclModule, AnAsynchronousErrorIsNotWaitedFor) {
  const RunResult result = sum_with("async=0:2");
  if (result.reports) expect_cause(result, CommReason::transport, "an injected asynchronous error");
}

TEST_F(NcclModule, ARefusedCallIsToldInNcclsWords) {
  const RunResult result = sum_with("refuse=0:1");
  if (result.reports) expect_cause(result, CommReason::transport, "ncclAllReduce: ");
}

TEST_F(NcclModule, WithoutCuBlasTheRankSaysSo) {
  const RunResult result = sum_with("no_cublas");
  if (result.reports) expect_cause(result, CommReason::died, "cublasCreate");
}

TEST_F(NcclModule, ProbeSaysWhyItCannotBeUsed) {
  const auto why = [&](const char* fault) {
    ::setenv("S2T_STANDIN_FAULT", fault, 1);
    const Probe probe = nccl_.probe();
    ::unsetenv("S2T_STANDIN_FAULT");
    EXPECT_FALSE(probe.usable);
    return probe.why;
  };
  EXPECT_EQ(why("no_driver"), "no NVIDIA driver");
  EXPECT_THAT(why("no_device"), HasSubstr("CUDA: "));
  EXPECT_EQ(why("nccl_version=21703"), "NCCL 2.17.3 is too old, 2.19.0 or newer is needed");
  EXPECT_THAT(nccl_.probe().why, HasSubstr("stand-ins, not a GPU"));
}

}  // namespace
}  // namespace s2t
