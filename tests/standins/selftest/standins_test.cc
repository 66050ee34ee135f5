// What must come of each scenario of the driver, and what the witnesses must have seen.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <set>

#include "tests/support/process.h"

namespace s2t::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Outcome drive(const std::string& scenario, int ranks, Environment environment = {}) {
  environment["LD_LIBRARY_PATH"] = S2T_STANDIN_DIR;
  environment.emplace("S2T_STANDIN_TIMEOUT_MS", "20000");
  return run({S2T_DRIVER, scenario, std::to_string(ranks)}, environment);
}

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

// --- right programs --------------------------------------------------------------------------
TEST(StandIns, EveryOperationOnEveryTypeHasTheRightValues) {
  for (const int ranks : {1, 2, 5}) {
    const Outcome outcome = drive("values", ranks);
    EXPECT_EQ(outcome.exit_code, 0) << ranks << " ranks: " << outcome.output;
  }
}
TEST(StandIns, ManyRanksWork) {
  const Outcome outcome = drive("groups", 32, {{"S2T_STANDIN_DEVICES", "32"}});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}
TEST(StandIns, SplitOrdersByKeyAndLeavesOutNoColor) {
  const Outcome outcome = drive("groups", 4);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}
TEST(StandIns, KernelsProductsAndCollectivesFollowEventsAcrossStreams) {
  const Outcome outcome = drive("streams", 4);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}
TEST(StandIns, ProductsOfSixteenBitFloatsAndTooSmallOutputs) {
  const Outcome outcome = drive("products", 1);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}
TEST(StandIns, TheyMarkThemselves) {
  for (const char* name : {"cudart", "cublas", "nccl"}) {
    void* library =
        dlopen((std::string(S2T_STANDIN_DIR) + "/lib" + name + ".so").c_str(), RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto mark = reinterpret_cast<const char* (*)()>(dlsym(library, "s2t_stand_in"));
    ASSERT_NE(mark, nullptr);
    EXPECT_STREQ(mark(), name);
  }
}
TEST(StandIns, WithoutThemTheProgramSkipsWithCudasWordsUnlessThereIsAGpu) {
  const Outcome outcome = run({S2T_DRIVER, "version", "1"}, {{"LD_LIBRARY_PATH", ""}});
  if (outcome.exit_code == 0) GTEST_SKIP() << "a GPU is here";
  EXPECT_EQ(outcome.exit_code, 77) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("skipped: "));
}

// --- wrong programs --------------------------------------------------------------------------
TEST(StandIns, AMissingWaitShowsStaleData) {
  EXPECT_THAT(drive("missing_wait", 2).output, HasSubstr("stale data seen"));
}
TEST(StandIns, MemoryIsPoisonedBoundedAndFreedOnce) {
  const Outcome outcome = drive("memory", 1);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("has no CPU twin"));
}
TEST(StandIns, AWritePastTheEndBreaksTheDevice) {
  const Outcome outcome = drive("overrun", 1);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("a write past the end of an allocation"));
}
TEST(StandIns, BadArgumentsAreRefusedWithWordsAndSinkTheirGroup) {
  const Outcome outcome = drive("refused", 2);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

struct Mismatch {
  const char* scenario;
  std::vector<const char*> words;
};
class Mismatches : public testing::TestWithParam<Mismatch> {};

TEST_P(Mismatches, AreReportedByEveryRankAsInvalidUsageAndDoNotHang) {
  const Outcome outcome = drive(GetParam().scenario, 3);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  for (const int rank : {0, 1, 2}) {
    EXPECT_THAT(outcome.output, HasSubstr("rank " + std::to_string(rank) + ": 5 "));
  }
  for (const char* words : GetParam().words) EXPECT_THAT(outcome.output, HasSubstr(words));
}
INSTANTIATE_TEST_SUITE_P(
    StandIns, Mismatches,
    testing::Values(
        Mismatch{"wrong_count",
                 {"rank 1 calls AllReduce(count 17, ncclFloat32, sum) as its collective 2",
                  "rank 0 calls AllReduce(count 16, ncclFloat32, sum)"}},
        Mismatch{"zero_count", {"rank 1 calls AllReduce(count 0, ncclFloat32, sum)"}},
        Mismatch{"wrong_dtype", {"rank 1 calls AllReduce(count 16, ncclInt32, sum)"}},
        Mismatch{"wrong_reduction", {"rank 1 calls AllReduce(count 16, ncclFloat32, max)"}},
        Mismatch{"wrong_op", {"rank 1 calls AllGather(count 16, ncclFloat32)"}},
        Mismatch{"wrong_root", {"rank 1 calls Broadcast(count 4, ncclFloat32, root 1)"}},
        Mismatch{"wrong_message", {"communicator \"world\": rank "}},
        Mismatch{"message_against_collective",
                 {"rank 0 calls Recv(count 8, ncclFloat32, peer 1); rank 1 calls AllReduce"}}),
    [](const auto& instance) { return std::string(instance.param.scenario); });

TEST(StandIns, RanksThatJoinDifferentlyNamedGroupsAreToldSo) {
  const Outcome outcome = drive("wrong_name", 3);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("join different communicators: \"dp0\" and \"tp0\""));
}
TEST(StandIns, TwoRanksOnOneGpuAreRefusedUnlessTheirHostsDiffer) {
  const Outcome outcome = drive("version", 2, {{"CUDA_VISIBLE_DEVICES", "3"}});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("Duplicate GPU detected : rank 1 and rank 0 both on CUDA "
                                        "device 0000:03:00.0"));
}

// --- faults ----------------------------------------------------------------------------------
TEST(StandInFaults, ARankThatDiesIsARemoteErrorToTheOthers) {
  const Outcome outcome = drive("trouble", 3, {{"S2T_STANDIN_FAULT", "die=1:2"}});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(occurrences(outcome.output, ": 6 "), 2) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("rank 1 has ended or left"));
}
TEST(StandInFaults, AnAsynchronousErrorReachesEveryRank) {
  const Outcome outcome = drive("trouble", 3, {{"S2T_STANDIN_FAULT", "async=1:2"}});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(occurrences(outcome.output, ": 6 "), 2) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("rank 1: 2 communicator \"world\": an injected"));
}
TEST(StandInFaults, AStalledRankIsNoErrorAndAbortEndsTheWait) {
  const Outcome outcome = drive("stalled", 2, {{"S2T_STANDIN_FAULT", "stall=1:1"}});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}
TEST(StandInFaults, AWaitEndsAfterTheTimeoutAndSaysWhereTheOthersAre) {
  const Outcome outcome = drive("impatient", 2, {{"S2T_STANDIN_FAULT", "stall=1:1"}});
  EXPECT_THAT(outcome.output, HasSubstr("timed out; rank 1 is outside of any kernel"));
}
TEST(StandInFaults, ACallCanBeRefused) {
  const Outcome outcome = drive("refusal", 2, {{"S2T_STANDIN_FAULT", "refuse=1:2"}});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}
TEST(StandInFaults, MemoryCanEnd) {
  const Outcome outcome = drive("out_of_memory", 1, {{"S2T_STANDIN_FAULT", "oom=1000"}});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}
TEST(StandInFaults, TheVersionOfNcclCanBeWrong) {
  const Outcome outcome = drive("version", 1, {{"S2T_STANDIN_FAULT", "nccl_version=21703"}});
  EXPECT_THAT(outcome.output, HasSubstr("version 21703\n"));
}
TEST(StandInFaults, CublasCanBeMissing) {
  const Outcome outcome = drive("no_cublas", 1, {{"S2T_STANDIN_FAULT", "no_cublas"}});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}
TEST(StandInFaults, NoDriverAndNoDeviceAnswerAsCudaDoes) {
  const Outcome driver = drive("version", 1, {{"S2T_STANDIN_FAULT", "no_driver"}});
  EXPECT_EQ(driver.exit_code, 77);
  EXPECT_THAT(driver.output,
              HasSubstr("CUDA driver version is insufficient for CUDA runtime version (35)"));
  const Outcome device = drive("version", 1, {{"S2T_STANDIN_FAULT", "no_device"}});
  EXPECT_EQ(device.exit_code, 77);
  EXPECT_THAT(device.output, HasSubstr("no CUDA-capable device is detected (100)"));
}

// --- witnesses -------------------------------------------------------------------------------
class Witnesses : public testing::Test {
 protected:
  void SetUp() override {
    const std::string libraries = S2T_WITNESS_LIBRARIES;
    const Outcome outcome = drive("trace", 4,
                                  {{"S2T_WITNESS_DIR", folder_.path()},
                                   {"LD_PRELOAD", libraries + "/libs2t_pnccl.so"},
                                   {"NCCL_PROFILER_PLUGIN", libraries + "/libs2t_ncclprof.so"}});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    api_ = read_witness(folder_.path(), "pnccl");
    plugin_ = read_witness(folder_.path(), "ncclprof");
    ASSERT_EQ(api_.size(), 4u);
    ASSERT_EQ(plugin_.size(), 4u);
  }

  ScratchFolder folder_;
  Witnessed api_, plugin_;
};

std::string brief(const json& line) {
  const std::string kind = line.at("kind");
  if (kind != "call") return kind + " " + line.value("comm", "");
  std::string text = line.at("op").get<std::string>() + " " + line.at("comm").get<std::string>() +
                     " " + std::to_string(line.at("bytes").get<int64_t>());
  if (line.contains("peer")) text += " peer " + std::to_string(line.at("peer").get<int>());
  return text;
}

std::vector<std::string> briefs(const std::vector<json>& lines) {
  std::vector<std::string> result;
  for (const json& line : lines) result.push_back(brief(line));
  return result;
}

// What NCCL makes of a list of calls: no empty ones, none on one rank, all-to-all as messages.
std::multiset<std::string> planned(const std::vector<json>& calls) {
  std::multiset<std::string> result;
  for (json line : calls) {
    if (line.at("kind") != "call" || line.at("comm_size") == 1 || line.at("count") == 0) continue;
    if (line.at("op") != "all_to_all") {
      result.insert(brief(line));
      continue;
    }
    line["bytes"] = line.at("bytes").get<int64_t>() / line.at("comm_size").get<int64_t>();
    for (line["peer"] = 0; line["peer"] < line["comm_size"];
         line["peer"] = line["peer"].get<int>() + 1) {
      for (const char* half : {"send", "recv"}) {
        line["op"] = half;
        result.insert(brief(line));
      }
    }
  }
  return result;
}

// One kernel per group and communicator.
size_t kernels(const std::vector<json>& calls) {
  std::set<std::pair<int64_t, std::string>> result;
  for (const json& line : calls) {
    if (line.at("comm_size") == 1 || line.at("count") == 0) continue;
    result.emplace(line.at("group").get<int64_t>(), line.at("comm").get<std::string>());
  }
  return result.size();
}

TEST_F(Witnesses, TheInterposerSeesEveryCallInOrder) {
  EXPECT_THAT(briefs(api_.at(3)),
              testing::ElementsAre(
                  "all_reduce world 256", "all_gather tp1 16", "reduce_scatter tp1 16",
                  "broadcast world 24 peer 2", "reduce world 20 peer 1", "all_to_all world 64",
                  "all_reduce tp1 8", "all_reduce tp1 24", "all_reduce world 28",
                  "all_reduce world 0", "all_reduce self 36", "recv world 40 peer 0"));
  const json& gather = api_.at(3).at(1);
  EXPECT_EQ(gather.at("count"), 8);
  EXPECT_EQ(gather.at("dtype"), "bfloat16");
  EXPECT_EQ(gather.at("comm_rank"), 0);
  EXPECT_EQ(api_.at(3).at(2).at("reduce"), "avg");
}

TEST_F(Witnesses, ThePluginIsToldWhatNcclTells) {
  EXPECT_THAT(
      briefs(plugin_.at(1)),
      testing::ElementsAre(
          "all_reduce world 256", "launch world", "all_gather tp0 16", "launch tp0",
          "reduce_scatter tp0 16", "launch tp0", "broadcast world 24 peer 2", "launch world",
          "reduce world 20 peer 1", "launch world", "send world 16 peer 1", "recv world 16 peer 1",
          "send world 16 peer 2", "recv world 16 peer 0", "send world 16 peer 3",
          "recv world 16 peer 3", "send world 16 peer 0", "recv world 16 peer 2", "launch world",
          "all_reduce tp0 24", "all_reduce tp0 8", "launch tp0", "all_reduce world 28",
          "launch world", "channels tp0", "channels self", "channels world"));
  const json& gather = plugin_.at(1).at(2);
  EXPECT_EQ(gather.at("dtype"), "int8");
  EXPECT_EQ(gather.at("count"), 16);
}

TEST_F(Witnesses, BothAgreeOnWhatRanAndHowManyKernelsItTook) {
  for (const auto& [rank, lines] : plugin_) {
    std::vector<json> calls;
    size_t launches = 0;
    int64_t channels = 0;
    for (const json& line : lines) {
      if (line.at("kind") == "call") calls.push_back(line);
      launches += line.at("kind") == "launch";
      if (line.at("kind") == "channels") channels += line.at("count").get<int64_t>();
    }
    EXPECT_EQ(planned(calls), planned(api_.at(rank))) << "rank " << rank;
    EXPECT_EQ(launches, kernels(api_.at(rank)));
    EXPECT_EQ(channels, static_cast<int64_t>(launches));
    calls.pop_back();
    EXPECT_NE(planned(calls), planned(api_.at(rank))) << "a lost line must show";
  }
}

TEST_F(Witnesses, AFileThatIsCutShortIsNoEvidence) {
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) / 2);
  }
  EXPECT_ANY_THROW(read_witness(folder_.path(), "pnccl"));
}

TEST(WitnessErrors, ARefusedCallIsWrittenDown) {
  ScratchFolder folder;
  const std::string library = std::string(S2T_WITNESS_LIBRARIES) + "/libs2t_pnccl.so";
  drive("refused", 1, {{"S2T_WITNESS_DIR", folder.path()}, {"LD_PRELOAD", library}});
  const auto lines = read_witness(folder.path(), "pnccl").at(0);
  EXPECT_EQ(lines.at(0).at("kind"), "call");
  EXPECT_EQ(lines.at(1).at("kind"), "error");
  EXPECT_EQ(lines.at(1).at("result"), 4);
}

}  // namespace
}  // namespace s2t::test
