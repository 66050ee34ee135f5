// The conformance suite and the faults on backends whose ranks are processes. Each test starts this
// program again, once per rank, for the same test; there the body runs and nothing is asserted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <thread>

#include "runtime/comm/backend.h"
#include "tests/runtime/comm/conformance.h"

namespace s2t {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

std::string this_test() {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  return std::string(test->test_suite_name()) + "." + test->name();
}

RunOptions options_for(int size, std::chrono::milliseconds timeout = 30s) {
  RunOptions options;
  options.world_size = size;
  options.timeout = timeout;
  options.arguments = {"--gtest_filter=" + this_test()};
  return options;
}

class OnBackend : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    backend_ = find_backend(GetParam());
    ASSERT_NE(backend_, nullptr);
    const Probe probe = backend_->probe();
    if (!probe.usable) GTEST_SKIP() << GetParam() << ": " << probe.why;
  }

  RunResult run(const RunOptions& options, const RankBody& body) const {
    return backend_->run(options, body);
  }
  RunResult run(int size, const std::function<void(World&, Communicator&)>& body,
                std::chrono::milliseconds timeout = 30s) const {
    return run(options_for(size, timeout), [&](World& world) {
      auto all = world.create_group("all", ranks_of_world(world));
      body(world, *all);
      return std::to_string(world.rank().value);
    });
  }

 private:
  const Backend* backend_ = nullptr;
};

void expect_clean(const RunResult& result, size_t size) {
  for (const RankFailure& f : result.failures) ADD_FAILURE() << f.text << "\n" << result.output;
  EXPECT_EQ(result.results.size(), size);
  for (const std::string& wrong : result.results) EXPECT_EQ(wrong, "");
}

void expect_all_stop(const RunResult& result, size_t ranks, CommReason reason,
                     const testing::Matcher<std::string>& text) {
  EXPECT_EQ(result.failures.size(), ranks) << result.output;
  for (const RankFailure& f : result.failures) {
    EXPECT_EQ(name_of(f.reason), name_of(reason)) << f.text;
    EXPECT_THAT(f.text, text);
  }
  EXPECT_TRUE(waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD) << "a child is left";
}

// On the device, so that one body serves all backends.
void sum(Communicator& group, Count count = 4) {
  const DeviceBuffer x(group.device(), count * sizeof(float));
  group.device().zero(x.data(), x.bytes());
  group.all_reduce(x.data(), x.data(), count, DType::f32);
}

class Conformance : public OnBackend {
 protected:
  void all(int size) {
    const RunResult result = run(options_for(size), conformance::run_all);
    if (result.reports) expect_clean(result, static_cast<size_t>(size));
  }
};

TEST_P(Conformance, OneRank) {
  all(1);
}
TEST_P(Conformance, TwoRanks) {
  all(2);
}
TEST_P(Conformance, ThreeRanks) {
  all(3);
}
TEST_P(Conformance, FourRanks) {
  all(4);
}
TEST_P(Conformance, SevenRanks) {
  all(7);
}
TEST_P(Conformance, EightRanks) {
  all(8);
}

TEST_P(Conformance, TheDefaultsBuiltOnMessages) {
  const RunResult result = run(options_for(3), conformance::run_all_by_messages);
  if (result.reports) expect_clean(result, 3);
}

TEST_P(Conformance, CountsBeyondOneCallAreCutIntoPieces) {
  RunOptions options = options_for(3);
  options.environment["S2T_MPI_MAX_COUNT"] = "2000";  // other backends know no such limit
  const RunResult result = run(options, [](World& world) -> std::string {
    if (std::getenv("S2T_MPI_MAX_COUNT") == nullptr) return "the environment was not passed on";
    return conformance::run_all(world);
  });
  if (result.reports) expect_clean(result, 3);
}

class Faults : public OnBackend {};

TEST_P(Faults, ARankThatThrowsIsNamedWithItsEvent) {
  const RunResult result = run(3, [](World& world, Communicator& all) {
    sum(all);
    world.annotate({"backward", "event 7"});
    sum(all);
    if (world.rank() == Rank(2)) throw std::runtime_error("boom");
    sum(all);
  });
  if (!result.reports) return;
  expect_all_stop(result, 3, CommReason::died,
                  AllOf(HasSubstr("rank 2 died"), HasSubstr("event 7"), HasSubstr("boom")));
  EXPECT_EQ(result.failures.at(0).rank, Rank(2));
}

TEST_P(Faults, ARankThatSaidWhatComesNextIsNamedWithThat) {
  const RunResult result = run(2, [](World& world, Communicator& all) {
    world.annotate({"backward", "event 7"});
    sum(all);
    world.annotate({"", "event 8"});
    if (world.rank() == Rank(1)) throw std::runtime_error("boom");
    sum(all);
  });
  if (!result.reports) return;
  expect_all_stop(
      result, 2, CommReason::died,
      AllOf(HasSubstr("rank 1 died before event 8, after all_reduce"), HasSubstr("[event 7]")));
}

TEST_P(Faults, AKilledProcessIsNamedAndTheOthersStop) {
  const RunResult result = run(3, [](World& world, Communicator& all) {
    sum(all);
    if (world.rank() == Rank(1)) ::raise(SIGKILL);
    sum(all);
  });
  if (!result.reports) return;
  expect_all_stop(result, 3, CommReason::died,
                  AllOf(HasSubstr("rank 1 died in all_reduce"), HasSubstr("process")));
}

TEST_P(Faults, AStalledRankIsNamedAndItsProcessDoesNotStay) {
  const std::string note = testing::TempDir() + "s2t_stalled_pid_" + GetParam();
  const auto start = std::chrono::steady_clock::now();
  const RunResult result = run(
      3,
      [&](World& world, Communicator& all) {
        sum(all);
        if (world.rank() == Rank(1)) {
          std::ofstream(note) << ::getpid();
          std::this_thread::sleep_for(120s);
        }
        sum(all);
      },
      1s);
  if (!result.reports) return;
  EXPECT_LT(std::chrono::steady_clock::now() - start, 25s);
  expect_all_stop(result, 3, CommReason::timeout,
                  AllOf(HasSubstr("waited 1 s in all_reduce"), HasSubstr("rank 1 is missing")));
  pid_t stalled = 0;
  std::ifstream(note) >> stalled;
  ::unlink(note.c_str());
  ASSERT_GT(stalled, 0);
  for (int i = 0; i < 100 && ::kill(stalled, 0) == 0; ++i) std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(::kill(stalled, 0) != 0 && errno == ESRCH) << "process " << stalled << " is left";
}

TEST_P(Faults, AnotherOperationIsAMismatchThatNamesBoth) {
  const RunResult result = run(3, [](World& world, Communicator& all) {
    if (world.rank() == Rank(1)) return all.barrier();
    sum(all);
  });
  if (!result.reports) return;
  expect_all_stop(
      result, 3, CommReason::mismatch,
      AllOf(HasSubstr("rank 1 issues barrier"), HasSubstr("issues all_reduce (sum) of 4 float32")));
}

TEST_P(Faults, AnotherCountIsAMismatch) {
  const RunResult result =
      run(2, [](World& world, Communicator& all) { sum(all, world.rank() == Rank(1) ? 5 : 4); });
  if (!result.reports) return;
  expect_all_stop(result, 2, CommReason::mismatch,
                  HasSubstr("rank 1 issues all_reduce (sum) of 5"));
}

TEST_P(Faults, GroupsInAnotherOrderAreFoundWithoutWaiting) {
  const RunResult result = run(options_for(2), [](World& world) {
    auto tp = world.create_group("tp", ranks_of_world(world));
    auto dp = world.create_group("dp", ranks_of_world(world));
    sum(world.rank() == Rank(0) ? *tp : *dp);
    return std::string();
  });
  if (!result.reports) return;
  expect_all_stop(result, 2, CommReason::mismatch,
                  AllOf(HasSubstr("no rank can go on"), HasSubstr("\"tp\""), HasSubstr("\"dp\"")));
}

TEST_P(Faults, AMemberThatDoesNotComeToAGroupIsNamed) {
  const RunResult result = run(options_for(2, 1s), [](World& world) {
    if (world.rank() == Rank(1)) std::this_thread::sleep_for(120s);
    world.create_group("late", ranks_of_world(world));
    return std::string();
  });
  if (!result.reports) return;
  expect_all_stop(result, 2, CommReason::timeout,
                  AllOf(HasSubstr("creating the group"), HasSubstr("rank 1 is missing")));
}

TEST_P(Faults, AProcessThatNeverJoinsIsNamed) {
  RunOptions options = options_for(2);
  options.arguments = {"--gtest_filter=NoSuchTest", "--gtest_color=no"};
  const RunResult result = run(options, [](World&) { return std::string(); });
  expect_all_stop(result, 2, CommReason::died, HasSubstr("before it joined"));
}

TEST_P(Faults, CtrlCStopsTheRanks) {
  const RunOptions options = options_for(2);
  const bool launcher = std::getenv("S2T_CONTROL") == nullptr;
  std::jthread user([launcher] {
    std::this_thread::sleep_for(1500ms);
    if (launcher) ::kill(::getpid(), SIGINT);
  });
  const RunResult result = run(options, [](World& world) {
    auto all = world.create_group("all", ranks_of_world(world));
    for (;;) sum(*all);
    return std::string();
  });
  if (!result.reports) return;
  expect_all_stop(result, 2, CommReason::cancelled, HasSubstr("cancelled by a signal"));
}

INSTANTIATE_TEST_SUITE_P(Mpi, Conformance, testing::Values("mpi"));
INSTANTIATE_TEST_SUITE_P(Mpi, Faults, testing::Values("mpi"));
INSTANTIATE_TEST_SUITE_P(Nccl, Conformance, testing::Values("nccl"));
INSTANTIATE_TEST_SUITE_P(Nccl, Faults, testing::Values("nccl"));

}  // namespace
}  // namespace s2t
