// What the other ranks hear when one of them misbehaves, and how soon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <latch>
#include <new>
#include <thread>

#include "runtime/comm/backend.h"

namespace s2t {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

using GroupBody = std::function<void(World&, Communicator&)>;

RunResult run(int size, const GroupBody& body, std::chrono::milliseconds timeout = 30s) {
  RunOptions options;
  options.world_size = size;
  options.timeout = timeout;
  return find_backend("host")->run(options, [&](World& world) {
    auto all = world.create_group("all", ranks_of_world(world));
    body(world, *all);
    return std::string();
  });
}

void sum(Communicator& group, Count count = 4) {
  std::vector<float> x(count, 1);
  group.all_reduce(x.data(), x.data(), count, DType::f32);
}

// All ranks stop, for the same reason and in the same words.
void expect_all_stop(const RunResult& result, size_t ranks, CommReason reason,
                     const testing::Matcher<std::string>& text) {
  ASSERT_EQ(result.failures.size(), ranks);
  for (const RankFailure& f : result.failures) {
    EXPECT_EQ(name_of(f.reason), name_of(reason)) << f.text;
    EXPECT_THAT(f.text, text);
  }
}

TEST(HostFaults, ARankThatThrowsIsNamedWithItsEvent) {
  const RunResult result = run(4, [](World& world, Communicator& all) {
    sum(all);
    world.annotate({"backward", "event 7"});
    if (world.rank() == Rank(2)) throw std::runtime_error("boom");
    sum(all);
  });
  expect_all_stop(result, 4, CommReason::died,
                  AllOf(HasSubstr("rank 2 died"), HasSubstr("event 7"), HasSubstr("boom")));
  EXPECT_EQ(result.failures[0].rank, Rank(2));
  EXPECT_THROW(std::rethrow_exception(result.cause), std::runtime_error);
}

TEST(HostFaults, ARankThatRunsOutOfMemoryIsNamed) {
  const RunResult result = run(3, [](World& world, Communicator& all) {
    sum(all);
    if (world.rank() == Rank(1)) throw std::bad_alloc();
    sum(all);
  });
  expect_all_stop(result, 3, CommReason::died,
                  AllOf(HasSubstr("rank 1 died in all_reduce"), HasSubstr(": out of memory")));
}

TEST(HostFaults, AStalledRankTimesOutAndIsNamed) {
  std::latch gave_up(2);  // rank 1 comes only after the others have stopped waiting for it
  const RunResult result = run(
      3,
      [&](World& world, Communicator& all) {
        if (world.rank() == Rank(1)) {
          gave_up.wait();
          return sum(all);
        }
        try {
          sum(all);
        } catch (...) {
          gave_up.count_down();
          throw;
        }
      },
      500ms);
  expect_all_stop(result, 3, CommReason::timeout,
                  AllOf(HasSubstr("waited 0.5 s in all_reduce"), HasSubstr("rank 1 is missing")));
}

TEST(HostFaults, AnotherOperationIsAMismatchThatNamesBoth) {
  const RunResult result = run(3, [](World& world, Communicator& all) {
    std::vector<float> in(4), out(12);
    if (world.rank() == Rank(1)) return all.all_gather(in.data(), out.data(), 4, DType::f32);
    sum(all);
  });
  expect_all_stop(result, 3, CommReason::mismatch,
                  AllOf(HasSubstr("rank 1 issues all_gather of 4 float32"),
                        HasSubstr("issues all_reduce (sum) of 4 float32")));
}

TEST(HostFaults, AnotherCountIsAMismatch) {
  const RunResult result =
      run(4, [](World& world, Communicator& all) { sum(all, world.rank() == Rank(3) ? 5 : 4); });
  expect_all_stop(result, 4, CommReason::mismatch,
                  HasSubstr("rank 3 issues all_reduce (sum) of 5"));
}

TEST(HostFaults, AnotherDTypeIsAMismatch) {
  const RunResult result = run(2, [](World& world, Communicator& all) {
    double x[4] = {};
    all.all_reduce(x, x, 4, world.rank() == Rank(0) ? DType::f32 : DType::f64);
  });
  expect_all_stop(result, 2, CommReason::mismatch, HasSubstr("float64"));
}

TEST(HostFaults, SplitsThatDoNotFitAreAMismatch) {
  const RunResult result = run(2, [](World&, Communicator& all) {
    float x[4] = {}, y[4] = {};
    const std::vector<Count> sends{1, 2}, recvs{1, 1};
    all.all_to_all(x, sends, y, recvs, DType::f32);
  });
  expect_all_stop(result, 2, CommReason::mismatch, HasSubstr("sends [1 2], receives [1 1]"));
}

TEST(HostFaults, ASendAgainstACollectiveIsAMismatchNotAHang) {
  const RunResult result = run(2, [](World& world, Communicator& all) {
    float x = 1;
    if (world.rank() == Rank(0)) return all.send(&x, 1, DType::f32, 1);
    sum(all);
  });
  expect_all_stop(result, 2, CommReason::mismatch, HasSubstr("rank 0 issues send"));
}

TEST(HostFaults, AMessageOfAnotherLengthIsAMismatch) {
  const RunResult result = run(2, [](World& world, Communicator& all) {
    float x[3] = {};
    if (world.rank() == Rank(0)) return all.send(x, 2, DType::f32, 1);
    all.recv(x, 3, DType::f32, 0);
  });
  expect_all_stop(
      result, 2, CommReason::mismatch,
      AllOf(HasSubstr("send of 2 float32 to 1"), HasSubstr("recv of 3 float32 from 0")));
}

TEST(HostFaults, GroupsInAnotherOrderAreFoundWithoutWaiting) {
  RunOptions options;
  options.world_size = 2;
  const RunResult result = find_backend("host")->run(options, [](World& world) {
    auto tp = world.create_group("tp", ranks_of_world(world));
    auto dp = world.create_group("dp", ranks_of_world(world));
    sum(world.rank() == Rank(0) ? *tp : *dp);
    return std::string();
  });
  expect_all_stop(result, 2, CommReason::mismatch,
                  AllOf(HasSubstr("no rank can go on"), HasSubstr("\"tp\""), HasSubstr("\"dp\"")));
}

TEST(HostFaults, SendsThatWaitForEachOtherAreFound) {
  const RunResult result = run(2, [](World& world, Communicator& all) {
    float x = 1;
    all.send(&x, 1, DType::f32, 1 - world.rank().value);
    all.recv(&x, 1, DType::f32, 1 - world.rank().value);
  });
  expect_all_stop(result, 2, CommReason::mismatch, HasSubstr("no rank can go on"));
}

TEST(HostFaults, ARankThatEndsEarlyIsFound) {
  const RunResult result = run(2, [](World& world, Communicator& all) {
    sum(all);
    if (world.rank() == Rank(0)) sum(all);
  });
  ASSERT_EQ(result.failures.size(), 1u);
  EXPECT_THAT(result.failures[0].text, HasSubstr("rank 1 has ended after all_reduce"));
}

TEST(HostFaults, GroupsCreatedInAnotherOrderAreAMismatch) {
  RunOptions options;
  options.world_size = 2;
  const RunResult result = find_backend("host")->run(options, [](World& world) {
    const std::string first = world.rank() == Rank(0) ? "tp" : "dp";
    auto group = world.create_group(first, ranks_of_world(world));
    group->barrier();
    return std::string();
  });
  expect_all_stop(result, 2, CommReason::mismatch, HasSubstr("create different groups"));
}

TEST(HostFaults, AbortStopsEverybodyWithItsReason) {
  const RunResult result = run(3, [](World& world, Communicator& all) {
    if (world.rank() == Rank(1)) world.abort("enough");
    sum(all);
  });
  expect_all_stop(result, 3, CommReason::cancelled, HasSubstr("rank 1 ended the run: enough"));
}

TEST(HostFaults, CtrlCStopsARunThatWaits) {
  std::signal(SIGINT, SIG_DFL);  // who starts us in the background may have it ignored
  const RunResult result = run(2, [](World& world, Communicator& all) {
    if (world.rank() == Rank(1)) return sum(all);  // waits for rank 0, which does not come
    std::raise(SIGINT);
    for (int i = 0; i < 20'000; ++i) {
      std::this_thread::sleep_for(1ms);
      world.check_alive();
    }
  });
  expect_all_stop(result, 2, CommReason::cancelled, HasSubstr("cancelled by a signal"));
}

TEST(HostFaults, CancelOutlastsARunInsideAnotherGuard) {
  const CancelOnSignal outer;
  std::raise(SIGTERM);
  run(2, [](World&, Communicator&) {});
  EXPECT_TRUE(cancel_requested());
  EXPECT_THROW(throw_if_cancelled(), CommError);
}

TEST(HostFaults, ACallThatCanNeverBeRightIsAFaultOfTheCaller) {
  const RunResult result =
      run(2, [](World&, Communicator& all) { all.all_reduce(nullptr, nullptr, 4, DType::f32); });
  EXPECT_FALSE(result.ok());
  EXPECT_THAT(result.failures[0].text, HasSubstr("the input is null"));
}

}  // namespace
}  // namespace s2t
