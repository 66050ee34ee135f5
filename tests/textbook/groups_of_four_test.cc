// A published course chapter on process groups runs eight small programs on four GPUs and counts
// their NCCL kernels. These are its shapes, bytes, groups and counts (float32, bytes per rank).
// Its all-reduces of MAX and MIN over the world only check results and are not part of a step.
#include <gmock/gmock.h>

#include "tests/textbook/step.h"

namespace s2t {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using Kernels = std::map<std::string, int>;

const Rank r0(0), r1(1), r2(2), r3(3);

TEST(GroupsOfFour, TensorAndDataGroupsAreOrthogonal) {
  EXPECT_THAT(group_lines(analyze_model("tp_ar_b32")),
              ElementsAre("tp: 0 1 | 2 3", "dp: 0 2 | 1 3"));
  EXPECT_THAT(group_lines(analyze_model("pp_mb1")), ElementsAre("pp: 0 1 | 2 3", "dp: 0 2 | 1 3"));
  EXPECT_THAT(group_lines(analyze_model("ep_balanced")),
              IsSupersetOf({"ep: 0 1 | 2 3", "edp: 0 2 | 1 3"}));
}

TEST(GroupsOfFour, ColumnThenRowParallelReducesTheActivationEachWay) {
  for (const auto& [name, bytes] : {std::pair{"tp_ar_b32", 65536}, {"tp_ar_b128", 262144}}) {
    const Program p = analyze_model(name);
    const std::string y = "tp y " + std::to_string(bytes) + ">" + std::to_string(bytes);
    for (const Rank rank : {r0, r1, r2, r3}) {
      EXPECT_THAT(lines_of(p, rank),
                  ElementsAre("forward all_reduce " + y, "backward all_reduce " + y,
                              "grad_sync all_reduce dp w1 1048576>1048576",
                              "grad_sync all_reduce dp w2 1048576>1048576"));
      EXPECT_EQ(kernels_of(p, rank), (Kernels{{"AllReduce", 4}}));
    }
  }
}

TEST(GroupsOfFour, AShardedResultIsScatteredAndGatheredEachWay) {
  const Program p = analyze_model("tp_sp_b128");
  EXPECT_THAT(lines_of(p, r3), ElementsAre("forward reduce_scatter tp y 262144>131072",
                                           "forward all_gather tp y 131072>262144",
                                           "backward reduce_scatter tp y 262144>131072",
                                           "backward all_gather tp y 131072>262144",
                                           "grad_sync all_reduce dp w1 1048576>1048576",
                                           "grad_sync all_reduce dp w2 1048576>1048576"));
  EXPECT_EQ(kernels_of(p, r3), (Kernels{{"AllReduce", 2}, {"AllGather", 2}, {"ReduceScatter", 2}}));
}

TEST(GroupsOfFour, OneMicrobatchIsOneMessageEachWay) {
  const Program p = analyze_model("pp_mb1");
  EXPECT_THAT(lines_of(p, r2),
              ElementsAre("forward send pp g to 3 262144", "backward recv pp g from 3 262144",
                          "grad_sync all_reduce dp w1 2097152>2097152"));
  EXPECT_THAT(lines_of(p, r3),
              ElementsAre("forward recv pp g from 2 262144", "backward send pp g to 2 262144",
                          "grad_sync all_reduce dp w2 2097152>2097152"));
  EXPECT_EQ(kernels_of(p, r2), (Kernels{{"AllReduce", 1}, {"SendRecv", 2}}));
}

TEST(GroupsOfFour, EightMicrobatchesDrainInReverse) {
  const Program p = analyze_model("pp_mb8");
  std::vector<std::string> forward, backward;
  for (int m = 0; m < 8; ++m) {
    forward.push_back("forward send pp g to 1 32768 #" + std::to_string(m));
    backward.push_back("backward recv pp g from 1 32768 #" + std::to_string(7 - m));
  }
  EXPECT_EQ(lines_of(p, r0, Phase::forward), forward);
  EXPECT_EQ(lines_of(p, r0, Phase::backward), backward);
  for (const Rank rank : {r0, r1, r2, r3})
    EXPECT_EQ(kernels_of(p, rank), (Kernels{{"AllReduce", 1}, {"SendRecv", 16}}));
}

TEST(GroupsOfFour, BalancedExpertsExchangeEqualRows) {
  const Program p = analyze_model("ep_balanced");
  const std::string numbers = " 131072>131072 [32,32]>[32,32]";
  EXPECT_THAT(
      lines_of(p, r1),
      ElementsAre("forward all_to_all ep rows" + numbers, "forward all_to_all ep g" + numbers,
                  "backward all_to_all ep g" + numbers, "backward all_to_all ep rows" + numbers,
                  "grad_sync all_reduce edp w 1048576>1048576"));
  EXPECT_EQ(kernels_of(p, r1), (Kernels{{"AllReduce", 1}, {"SendRecv", 4}}));
}

TEST(GroupsOfFour, SkewMovesBytesToTheHotRank) {
  const Program p = analyze_model("ep_skewed");
  for (const Rank hot : {r0, r2})
    EXPECT_THAT(lines_of(p, hot),
                ElementsAre("forward all_to_all ep rows 131072>229376 [56,8]>[56,56]",
                            "forward all_to_all ep g 229376>131072 [56,56]>[56,8]",
                            "backward all_to_all ep g 131072>229376 [56,8]>[56,56]",
                            "backward all_to_all ep rows 229376>131072 [56,56]>[56,8]",
                            "grad_sync all_reduce edp w 1048576>1048576"));
  for (const Rank cold : {r1, r3})
    EXPECT_THAT(lines_of(p, cold),
                ElementsAre("forward all_to_all ep rows 131072>32768 [56,8]>[8,8]",
                            "forward all_to_all ep g 32768>131072 [8,8]>[56,8]",
                            "backward all_to_all ep g 131072>32768 [56,8]>[8,8]",
                            "backward all_to_all ep rows 32768>131072 [8,8]>[56,8]",
                            "grad_sync all_reduce edp w 1048576>1048576"));
  EXPECT_EQ(kernels_of(p, r3), (Kernels{{"AllReduce", 1}, {"SendRecv", 4}}));
}

TEST(GroupsOfFour, TokensWithoutGradientPruneTheReverseDispatch) {
  const Program p = analyze_model("ep_no_input_grad");
  EXPECT_THAT(lines_of(p, r0, Phase::backward),
              ElementsAre("backward all_to_all ep g 131072>131072 [32,32]>[32,32]"));
  EXPECT_EQ(kernels_of(p, r0), (Kernels{{"AllReduce", 1}, {"SendRecv", 3}}));
  EXPECT_THAT(pruned_lines(p),
              ElementsAre("backward all_to_all ep rows 131072: x does not require grad"));
}

TEST(GroupsOfFour, TheSevenCountedConfigurationsMake44KernelsPerRank) {
  int kernels = 0;
  for (const char* name :
       {"tp_ar_b32", "tp_ar_b128", "tp_sp_b128", "pp_mb1", "pp_mb8", "ep_balanced", "ep_skewed"})
    for (const auto& [kernel, count] : kernels_of(analyze_model(name), r0)) kernels += count;
  EXPECT_EQ(kernels, 44);
}

}  // namespace
}  // namespace s2t
