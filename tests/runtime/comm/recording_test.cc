// The record says what ran, in order, with the caller's words.
#include "runtime/comm/recording.h"

#include <gtest/gtest.h>

#include "runtime/comm/backend.h"

namespace s2t {
namespace {

std::vector<Recording> record(int size, const std::function<void(World&)>& body) {
  std::vector<Recording> recordings(static_cast<size_t>(size));
  RunOptions options;
  options.world_size = size;
  find_backend("host")->run(options, [&](World& world) {
    RecordingWorld recorded(world, recordings[world.rank().at()]);
    body(recorded);
    return std::string();
  });
  return recordings;
}

TEST(Recording, CollectivesCarryBytesGroupAndAnnotation) {
  const auto recordings = record(4, [](World& world) {
    auto pair = world.create_group("tp1", {Rank(3), Rank(1)});
    if (pair == nullptr) return;
    world.annotate({"backward", "event 5"});
    std::vector<float> in(8), out(16);
    pair->all_gather(in.data(), out.data(), 8, DType::f32);
    pair->reduce_scatter(out.data(), in.data(), 8, DType::f32);
  });
  EXPECT_TRUE(recordings[0].calls.empty());
  ASSERT_EQ(recordings[1].calls.size(), 2u);
  const RecordedCall& gather = recordings[1].calls[0];
  EXPECT_EQ(gather.op, CommOp::all_gather);
  EXPECT_EQ(gather.group, "tp1");
  EXPECT_EQ(gather.ranks, (std::vector<Rank>{Rank(3), Rank(1)}));
  EXPECT_EQ(gather.count, 8u);
  EXPECT_EQ(gather.input_bytes, 32u);
  EXPECT_EQ(gather.output_bytes, 64u);
  EXPECT_EQ(gather.annotation, (Annotation{"backward", "event 5"}));
  EXPECT_TRUE(gather.completed);
  EXPECT_EQ(recordings[1].calls[1].input_bytes, 64u);
  EXPECT_EQ(recordings[1].calls[1].output_bytes, 32u);
}

TEST(Recording, PeersAreGlobalRanksAndABatchSharesANumber) {
  const auto recordings = record(2, [](World& world) {
    auto pp = world.create_group("pp", {Rank(1), Rank(0)});
    const int other = 1 - pp->rank();
    float in = 1, out = 0;
    for (int i = 0; i < 2; ++i) {
      pp->group_begin();
      pp->send(&in, 1, DType::f32, other);
      pp->recv(&out, 1, DType::f32, other);
      pp->group_end();
    }
    if (world.rank() == Rank(0)) return pp->send(&in, 1, DType::f32, other);
    pp->recv(&out, 1, DType::f32, other);
  });
  ASSERT_EQ(recordings[0].calls.size(), 5u);
  for (const RecordedCall& c : recordings[0].calls) EXPECT_EQ(c.peer, Rank(1));
  std::vector<int> batches;
  for (const RecordedCall& c : recordings[0].calls) batches.push_back(c.batch);
  EXPECT_EQ(batches, (std::vector<int>{0, 0, 1, 1, -1}));
  EXPECT_EQ(recordings[0].calls[4].op, CommOp::send);
  EXPECT_EQ(recordings[0].calls[4].output_bytes, 0u);
  EXPECT_EQ(recordings[1].calls[4].input_bytes, 0u);
}

TEST(Recording, AnInterruptedCallIsKeptAsNotCompleted) {
  const auto recordings = record(2, [](World& world) {
    auto all = world.create_group("all", ranks_of_world(world));
    all->barrier();
    if (world.rank() == Rank(1)) throw std::runtime_error("boom");
    all->barrier();
  });
  ASSERT_EQ(recordings[0].calls.size(), 2u);
  EXPECT_TRUE(recordings[0].calls[0].completed);
  EXPECT_FALSE(recordings[0].calls[1].completed);
}

TEST(Recording, SplitsOfAnAllToAllAreKept) {
  const auto recordings = record(2, [](World& world) {
    auto ep = world.create_group("ep", ranks_of_world(world));
    const bool first = world.rank() == Rank(0);
    const std::vector<Count> sends = first ? std::vector<Count>{1, 3} : std::vector<Count>{2, 0};
    const std::vector<Count> recvs = first ? std::vector<Count>{1, 2} : std::vector<Count>{3, 0};
    float in[4] = {}, out[4] = {};
    ep->all_to_all(in, sends, out, recvs, DType::f32);
  });
  const RecordedCall& call = recordings[0].calls.at(0);
  EXPECT_EQ(call.count, 4u);
  EXPECT_EQ(call.input_bytes, 16u);
  EXPECT_EQ(call.output_bytes, 12u);
  EXPECT_EQ(call.sends, (std::vector<Count>{1, 3}));
}

}  // namespace
}  // namespace s2t
