// Messages between pipeline ranks, and the launches that carry them: Megatron's
// pipeline_parallel/p2p_communication.py and schedules.py.
#include <gmock/gmock.h>

#include "analyzer/program/tally.h"
#include "tests/analyzer/io/predicted.h"

namespace s2t {
namespace {

using testing::ElementsAre;

// The wrap from the last rank to the first counts: m (p v - 1).
TEST(MegatronPipeline, InterleavedStagesExchangeMoreThanTwiceAsMuch) {
  Plan plan = plan_of(1, 16, false);
  plan.pp = 4;
  plan.global_batch = 8;
  EXPECT_EQ(forward_messages(predict(dense(8, 64, 8), plan)), 24);
  plan.vpp = 2;
  EXPECT_EQ(forward_messages(predict(dense(8, 64, 8), plan)), 56);
}

std::vector<Count> launches(const Program& p) {
  std::vector<Count> list;
  for (int32_t rank = 0; rank < 4; ++rank)
    list.push_back(class_of(p, Rank(rank)).kernels[kernel_index(Collective::send)]);
  return list;
}

std::vector<Count> messages(const Program& p) {
  std::vector<Count> list;
  for (int32_t rank = 0; rank < 4; ++rank) {
    const RankClass c = class_of(p, Rank(rank));
    list.push_back(c.operations[static_cast<size_t>(Collective::send)] +
                   c.operations[static_cast<size_t>(Collective::recv)]);
  }
  return list;
}

// Rank by rank, of 4 stages and 8 microbatches.
TEST(MegatronPipeline, LaunchesASendWithTheReceiveThatBelongsToIt) {
  Plan plan = plan_of(1, 16, false);
  plan.pp = 4;
  plan.global_batch = 8;
  const Program p = predict(dense(4, 64, 8), plan);
  EXPECT_THAT(launches(p), ElementsAre(11, 21, 19, 9));
  EXPECT_THAT(messages(p), ElementsAre(16, 32, 32, 16));
}

// Interleaved stages overlap messages with computation, each by itself, unless told not to.
TEST(MegatronPipeline, LaunchesMessagesOfInterleavedStagesOneByOne) {
  Plan plan = plan_of(1, 16, false);
  plan.pp = 4;
  plan.vpp = 2;
  plan.global_batch = 8;
  const Program p = predict(dense(8, 64, 8), plan);
  EXPECT_THAT(messages(p), ElementsAre(48, 64, 64, 48));
  EXPECT_EQ(launches(p), messages(p));
  EXPECT_EQ(model_of(dense(8, 64, 8), plan).pipeline->p2p, "overlapped");
  const Program batched = predict(dense(8, 64, 8), plan, {"interleaved_p2p=batched"});
  EXPECT_EQ(messages(batched), messages(p));
  EXPECT_THAT(launches(batched), ElementsAre(25, 25, 23, 21));
}

}  // namespace
}  // namespace s2t
