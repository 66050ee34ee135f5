// A published set of notes on tensor, pipeline and data parallelism, alone and together on eight
// ranks: batch 8, sequence 16, hidden 32, MLP 64, four layers, one loss, float32. Its all-reduces
// of MAX and MIN over the world only check results and are not part of a step.
#include <gmock/gmock.h>

#include "tests/textbook/step.h"

namespace s2t {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Counts = std::map<std::string, int>;

TEST(EightRanks, TensorParallelAloneReducesOnlyForward) {
  const Program p = analyze_model("tp_mlp");
  EXPECT_THAT(lines_of(p, Rank(0)), ElementsAre("forward all_reduce tp p0 16384>16384"));
  EXPECT_THAT(pruned_lines(p),
              ElementsAre("backward all_reduce tp x 16384: x does not require grad"));
}

TEST(EightRanks, PipelineAloneIsOneMessageEachWay) {
  const Program p = analyze_model("pp_4layers");
  EXPECT_THAT(lines_of(p, Rank(0)),
              ElementsAre("forward send pp y1 to 1 16384", "backward recv pp y1 from 1 16384"));
  EXPECT_THAT(lines_of(p, Rank(1)),
              ElementsAre("forward recv pp y1 from 0 16384", "backward send pp y1 to 0 16384"));
  EXPECT_THAT(p.pruned, IsEmpty());
}

std::vector<std::string> parameter_reductions(int first_layer, int layers, int w, int b1, int b2) {
  std::vector<std::string> lines;
  for (int i = first_layer; i < first_layer + layers; ++i)
    for (const auto& [name, bytes] : {std::pair{"w1_", w}, {"b1_", b1}, {"w2_", w}, {"b2_", b2}}) {
      const std::string size = std::to_string(bytes);
      lines.push_back("grad_sync all_reduce dp " + (name + std::to_string(i)) + " " + size + ">" +
                      size);
    }
  return lines;
}

TEST(EightRanks, DataParallelAloneReducesEveryParameterOnce) {
  const Program p = analyze_model("dp_mlp");
  EXPECT_EQ(lines_of(p, Rank(1)), parameter_reductions(0, 4, 8192, 256, 128));
}

TEST(EightRanks, EveryRankBelongsToThreeGroups) {
  EXPECT_THAT(group_lines(analyze_model("tp_pp_dp_8ranks")),
              ElementsAre("tp: 0 1 | 2 3 | 4 5 | 6 7", "pp: 0 2 | 1 3 | 4 6 | 5 7",
                          "dp: 0 4 | 1 5 | 2 6 | 3 7"));
}

TEST(EightRanks, TogetherTheStagesDifferByOneReduction) {
  const Program p = analyze_model("tp_pp_dp_8ranks");
  auto first = parameter_reductions(0, 2, 4096, 128, 128);
  first.insert(first.begin(),
               {"forward all_reduce tp p0 16384>16384", "forward all_reduce tp p1 16384>16384",
                "forward send pp y1 to 6 16384", "backward recv pp y1 from 6 16384",
                "backward all_reduce tp y0 16384>16384"});
  EXPECT_EQ(lines_of(p, Rank(4)), first);
  auto last = parameter_reductions(2, 2, 4096, 128, 128);
  last.insert(last.begin(),
              {"forward recv pp y1 from 0 16384", "forward all_reduce tp p2 16384>16384",
               "forward all_reduce tp p3 16384>16384", "backward all_reduce tp y2 16384>16384",
               "backward all_reduce tp y1 16384>16384", "backward send pp y1 to 0 16384"});
  EXPECT_EQ(lines_of(p, Rank(2)), last);
  EXPECT_THAT(pruned_lines(p),
              ElementsAre("backward all_reduce tp x 16384: x does not require grad"));
}

TEST(EightRanks, AnInputThatNeedsAGradientAddsOneReductionOnTheFirstStage) {
  const Program p = analyze_model("tp_pp_dp_8ranks_x_grad");
  for (const int rank : {0, 1, 2, 3, 4, 5, 6, 7}) {
    Counts counts = counts_of(p, Rank(rank));
    EXPECT_EQ(counts["backward all_reduce"], 2) << rank;
    EXPECT_EQ(counts["forward all_reduce"], 2) << rank;
    EXPECT_EQ(counts["grad_sync all_reduce"], 8) << rank;
  }
  EXPECT_THAT(p.pruned, IsEmpty());
}

}  // namespace
}  // namespace s2t
