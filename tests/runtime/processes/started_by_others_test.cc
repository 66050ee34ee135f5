// Ranks that mpirun, torchrun or srun started: they find their place in the environment, meet at
// rank 0, and rank 0 reports. Each test plays the launcher; the processes it starts run the same
// test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/comm/children.h"
#include "runtime/comm/processes.h"
#include "tests/runtime/comm/conformance.h"

namespace s2t {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 3;
constexpr const char* kPart = "S2T_TEST_PART";  // set in the processes that are ranks

std::vector<std::string> myself() {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  return {this_program(),
          "--gtest_filter=" + std::string(test->test_suite_name()) + "." + test->name()};
}

class StartedByOthers : public testing::TestWithParam<std::string> {
 protected:
  bool is_rank() const { return std::getenv(kPart) != nullptr; }

  void expect_to_run(std::vector<ChildCommand> commands) const {
    for (ChildCommand& c : commands) c.environment[kPart] = "rank";
    Children children(commands);
    const auto limit = std::chrono::steady_clock::now() + 60s;
    while (!children.all_ended() && std::chrono::steady_clock::now() < limit) children.watch(20ms);
    ASSERT_TRUE(children.all_ended()) << children.output();
    for (size_t i = 0; i < commands.size(); ++i)
      EXPECT_EQ(children.how_ended(i), "") << children.output();
  }

  // A rank of the run: rank 0 must have everybody's result, the others none.
  void be_a_rank() const {
    RunOptions options;
    options.world_size = kRanks;
    const RunResult result = find_backend(GetParam())->run(options, [](World& world) {
      const std::string wrong = conformance::run_all(world);
      return wrong.empty() ? "fine " + std::to_string(world.rank().value) : wrong;
    });
    if (!result.ok()) ADD_FAILURE() << result.failures[0].text;
    if (!result.reports) return;
    EXPECT_EQ(result.results, (std::vector<std::string>{"fine 0", "fine 1", "fine 2"}));
    EXPECT_EQ(started_as(1s)->place.rank, Rank(0));
  }

  bool usable() const {
    const Probe probe = find_backend(GetParam())->probe();
    if (!probe.usable) ADD_FAILURE() << probe.why;
    return probe.usable;
  }
};

TEST_P(StartedByOthers, UnderMpirunTheRanksMeet) {
  if (is_rank()) return be_a_rank();
  ASSERT_TRUE(usable());
  const Probe mpi = find_backend("mpi")->probe();
  if (!mpi.usable) GTEST_SKIP() << "mpi: " << mpi.why;
  ChildCommand c;
  c.arguments = {"mpirun",
                 "--allow-run-as-root",
                 "--oversubscribe",
                 "--bind-to",
                 "none",
                 "--mca",
                 "btl",
                 "self,vader",
                 "--mca",
                 "btl_vader_single_copy_mechanism",
                 "none",
                 "--mca",
                 "mpi_yield_when_idle",
                 "1",
                 "--mca",
                 "plm",
                 "isolated",
                 "-n",
                 std::to_string(kRanks)};
  for (const std::string& a : myself()) c.arguments.push_back(a);
  // Of its own: another mpirun in the same place would take it away.
  std::string session = testing::TempDir() + "s2t-mpirun-XXXXXX";
  ASSERT_NE(mkdtemp(session.data()), nullptr);
  c.environment = {{"OMPI_MCA_orte_tmpdir_base", session},
                   {"OMPI_MCA_btl_vader_backing_directory", session}};
  expect_to_run({c});
  std::filesystem::remove_all(session);
}

// MPI's own start-up belongs to mpirun; torchrun and srun start ranks for NCCL.
class StartedByNumbers : public StartedByOthers {};

TEST_P(StartedByNumbers, UnderTorchrunTheRanksMeetBesideItsMasterPort) {
  if (is_rank()) return be_a_rank();
  ASSERT_TRUE(usable());
  std::vector<ChildCommand> commands;
  for (int r = 0; r < kRanks; ++r) {
    const std::string rank = std::to_string(r), size = std::to_string(kRanks);
    commands.push_back({myself(),
                        {{"RANK", rank},
                         {"LOCAL_RANK", rank},
                         {"WORLD_SIZE", size},
                         {"LOCAL_WORLD_SIZE", size},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", std::to_string(31'000 + ::getpid() % 1000)}},
                        "rank " + rank});
  }
  expect_to_run(commands);
}

TEST_P(StartedByNumbers, UnderSrunOnOneMachineTheRanksMeet) {
  if (is_rank()) return be_a_rank();
  ASSERT_TRUE(usable());
  std::vector<ChildCommand> commands;
  for (int r = 0; r < kRanks; ++r) {
    const std::string rank = std::to_string(r), size = std::to_string(kRanks);
    commands.push_back({myself(),
                        {{"SLURM_PROCID", rank},
                         {"SLURM_LOCALID", rank},
                         {"SLURM_NTASKS", size},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_JOB_ID", std::to_string(::getpid())}},
                        "rank " + rank});
  }
  expect_to_run(commands);
}

INSTANTIATE_TEST_SUITE_P(Mpi, StartedByOthers, testing::Values("mpi"));
INSTANTIATE_TEST_SUITE_P(Nccl, StartedByOthers, testing::Values("nccl"));
INSTANTIATE_TEST_SUITE_P(Nccl, StartedByNumbers, testing::Values("nccl"));

// Sets variables for one test and takes them away again.
class WithEnvironment {
 public:
  explicit WithEnvironment(std::map<std::string, std::string> variables)
      : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~WithEnvironment() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }

 private:
  std::map<std::string, std::string> variables_;
};

TEST(Place, NobodyStartedAnOrdinaryProcess) {
  EXPECT_FALSE(started_as(1s).has_value());
}

TEST(Place, ABatchScriptOfSlurmIsNoRank) {
  const WithEnvironment slurm({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}});
  EXPECT_FALSE(started_as(1s).has_value());
}

TEST(Place, SrunSaysHowManyRanksAMachineHas) {
  const WithEnvironment slurm({{"SLURM_PROCID", "9"},
                               {"SLURM_NTASKS", "16"},
                               {"SLURM_LOCALID", "1"},
                               {"SLURM_STEP_ID", "0"},
                               {"SLURM_STEP_TASKS_PER_NODE", "8(x2)"},
                               {"MASTER_ADDR", "node1"},
                               {"MASTER_PORT", "5000"}});
  const auto self = started_as(1s);
  ASSERT_TRUE(self.has_value());
  EXPECT_EQ(self->by, "srun");
  EXPECT_EQ(self->place.rank, Rank(9));
  EXPECT_EQ(self->place.local_size, 8);
}

TEST(Place, RanksOnSeveralMachinesNeedAPlaceToMeet) {
  const WithEnvironment mpirun({{"OMPI_COMM_WORLD_RANK", "3"},
                                {"OMPI_COMM_WORLD_SIZE", "8"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
  try {
    started_as(1s);
    FAIL();
  } catch (const CommError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("set MASTER_ADDR and MASTER_PORT"));
  }
  const WithEnvironment master({{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "5000"}});
  const auto self = started_as(1s);
  ASSERT_TRUE(self.has_value());
  EXPECT_EQ(self->control.host, "node7");
  EXPECT_EQ(self->control.port, 5001);
  EXPECT_EQ(self->place.local_rank, 1);
  EXPECT_FALSE(self->judged);
}

}  // namespace
}  // namespace s2t
