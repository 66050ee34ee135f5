// Kernels and messages of pipeline schedules, per pipeline rank. Sources: Megatron-LM
// core/pipeline_parallel/schedules.py, torch/distributed/pipelining/schedules.py.
#include <gmock/gmock.h>

#include "analyzer/program/listing.h"
#include "tests/textbook/step.h"

namespace s2t {
namespace {

using testing::ElementsAre;

std::vector<int> kernels(const Program& p) {
  std::vector<int> all;
  for (int rank = 0; rank < p.pipeline_ranks; ++rank)
    all.push_back(kernels_of(p, Rank(rank))["SendRecv"]);
  return all;
}

std::vector<size_t> messages(const Program& p) {
  std::vector<size_t> all;
  for (int rank = 0; rank < p.pipeline_ranks; ++rank)
    all.push_back(events_of(p, Rank(rank)).size());
  return all;
}

TEST(Pipelines, GpipeLaunchesEveryMessageByItself) {
  const Program p = analyze_model("gpipe_p4_m8");
  EXPECT_THAT(kernels(p), ElementsAre(16, 32, 32, 16));
  EXPECT_THAT(messages(p), ElementsAre(16, 32, 32, 16));
}

TEST(Pipelines, OneForwardOneBackwardBatchesSendsWithReceives) {
  const Program p = analyze_model("1f1b_p4_m8");
  EXPECT_THAT(kernels(p), ElementsAre(11, 21, 19, 9));
  EXPECT_THAT(messages(p), ElementsAre(16, 32, 32, 16));
}

TEST(Pipelines, TwoChunksPerRankDoubleTheMessages) {
  const Program four = analyze_model("interleaved_p4_v2_m8");
  EXPECT_THAT(kernels(four), ElementsAre(25, 25, 23, 21));
  EXPECT_THAT(messages(four), ElementsAre(48, 64, 64, 48));
  const Program two = analyze_model("interleaved_p2_v2_m8");
  EXPECT_THAT(kernels(two), ElementsAre(19, 19));
  EXPECT_THAT(messages(two), ElementsAre(48, 48));
}

// rf sf rb sb: receive or send of an activation or a gradient; [ ] launched together.
std::string p2p_sequence(const Program& p, Rank rank) {
  std::string text;
  int64_t open = -1;
  for (const Event& e : events_of(p, rank)) {
    const std::string word = std::string(e.op == Collective::send ? "s" : "r") +
                             (e.phase == Phase::forward ? "f" : "b") +
                             std::to_string(*e.microbatch);
    text += (e.batch == open ? "|" : text.empty() ? "" : " ") + word;
    open = e.batch;
  }
  return text;
}

TEST(Pipelines, OneForwardOneBackwardHasThisOrder) {
  const Program p = analyze_model("1f1b_p4_m8");
  EXPECT_EQ(p2p_sequence(p, Rank(0)),
            "sf0 sf1 sf2 sf3|rb0 sf4|rb1 sf5|rb2 sf6|rb3 sf7|rb4 rb5 rb6 rb7");
  EXPECT_EQ(p2p_sequence(p, Rank(3)),
            "rf0 sb0|rf1 sb1|rf2 sb2|rf3 sb3|rf4 sb4|rf5 sb5|rf6 sb6|rf7 sb7");
}

}  // namespace
}  // namespace s2t
