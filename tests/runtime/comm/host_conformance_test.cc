// The conformance suite on the embedded backend.
#include <gtest/gtest.h>

#include "runtime/comm/backend.h"
#include "tests/runtime/comm/conformance.h"

namespace s2t {
namespace {

RunResult run_on_host(int world_size, const RankBody& body) {
  RunOptions options;
  options.world_size = world_size;
  return find_backend("host")->run(options, body);
}

void expect_clean(const RunResult& result) {
  for (const RankFailure& f : result.failures) ADD_FAILURE() << f.text;
  for (const std::string& wrong : result.results) EXPECT_EQ(wrong, "");
}

class HostConformance : public testing::TestWithParam<int> {};

TEST_P(HostConformance, EveryCollectiveMeansWhatItSays) {
  expect_clean(run_on_host(GetParam(), conformance::run_all));
}

TEST_P(HostConformance, EveryDefaultBuiltOnMessagesMeansTheSame) {
  expect_clean(run_on_host(GetParam(), conformance::run_all_by_messages));
}

INSTANTIATE_TEST_SUITE_P(Worlds, HostConformance, testing::Values(1, 2, 3, 4, 7, 8));

TEST(HostThreads, SixtyFourRanksFinish) {
  const RunResult result = run_on_host(64, [](World& world) {
    auto all = world.create_group("all", ranks_of_world(world));
    double x = 1;
    for (int i = 0; i < 20; ++i) all->all_reduce(&x, &x, 1, DType::f64, ReduceOp::max);
    all->all_reduce(&x, &x, 1, DType::f64);
    return std::to_string(static_cast<int>(x));
  });
  ASSERT_TRUE(result.ok());
  for (const std::string& x : result.results) EXPECT_EQ(x, "64");
}

}  // namespace
}  // namespace s2t
