#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/process.h"

namespace s2t::test {
namespace {

using nlohmann::json;

Environment for_mpi() {
  return {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
          {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
          {"OMPI_MCA_hwloc_base_binding_policy", "none"},
          {"OMPI_MCA_pml", "ob1"},
          {"OMPI_MCA_btl", "self,vader"},
          {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
          {"OMPI_MCA_mpi_yield_when_idle", "1"},
          {"OMPI_MCA_plm", "isolated"}};
}

Outcome mpirun(const std::string& folder, const std::string& mode = "plain") {
  return run({S2T_MPIEXEC, "-x", std::string("LD_PRELOAD=") + S2T_PMPI, "-x",
              "S2T_WITNESS_DIR=" + folder, "-n", "4", S2T_MPI_DRIVER, mode},
             for_mpi());
}

std::string brief(const json& line) {
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

TEST(MpiWitness, SeesEveryCallOfEveryRankInOrder) {
  ScratchFolder folder;
  const Outcome outcome = mpirun(folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  const Witnessed seen = read_witness(folder.path(), "pmpi");
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_THAT(
      briefs(seen.at(3)),
      testing::ElementsAre("all_reduce MPI_COMM_WORLD 256", "all_reduce tp1 32",
                           "all_gather tp1 16", "all_gather MPI_COMM_WORLD 12",
                           "all_gather MPI_COMM_WORLD 16", "reduce_scatter tp1 20",
                           "reduce_scatter MPI_COMM_WORLD 16", "all_to_all MPI_COMM_WORLD 32",
                           "all_to_all MPI_COMM_WORLD 40", "broadcast MPI_COMM_WORLD 24 peer 2",
                           "reduce MPI_COMM_WORLD 28 peer 1", "send MPI_COMM_WORLD 36 peer 0",
                           "recv MPI_COMM_WORLD 36 peer 2", "recv MPI_COMM_WORLD 40 peer 0",
                           "recv MPI_COMM_WORLD 44 peer 0", "barrier tp1 0"));
  EXPECT_THAT(briefs(seen.at(1)),
              testing::AllOf(testing::SizeIs(14), testing::Contains("reduce_scatter tp0 20"),
                             testing::Not(testing::Contains(testing::HasSubstr("peer 3")))));
}

TEST(MpiWitness, WritesTypesNamesAndSizesPerPeer) {
  ScratchFolder folder;
  ASSERT_EQ(mpirun(folder.path()).exit_code, 0);
  const auto lines = read_witness(folder.path(), "pmpi").at(2);
  EXPECT_EQ(lines.at(2).at("dtype"), "bfloat16");
  EXPECT_EQ(lines.at(2).at("count"), 8);
  EXPECT_EQ(lines.at(1).at("comm_rank"), 1);  // the split reversed the order
  EXPECT_EQ(lines.at(1).at("call"), "MPI_Iallreduce");
  EXPECT_EQ(lines.at(1).at("reduce"), "max");
  const json& ragged = lines.at(8);
  EXPECT_EQ(ragged.at("call"), "MPI_Alltoallv");
  EXPECT_EQ(ragged.at("count"), 10);
  EXPECT_EQ(ragged.at("send_bytes"), json({4, 8, 12, 16}));
  EXPECT_EQ(ragged.at("recv_bytes"), json({12, 12, 12, 12}));
}

TEST(MpiWitness, ACallThatItDoesNotCoverIsWrittenDown) {
  ScratchFolder folder;
  const Outcome outcome = mpirun(folder.path(), "gather");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, testing::HasSubstr("witness pmpi: MPI_Gather is not covered"));
  const json last = read_witness(folder.path(), "pmpi").at(0).back();
  EXPECT_EQ(last.at("kind"), "uncovered");
  EXPECT_EQ(last.at("call"), "MPI_Gather");
}

TEST(MpiWitness, AKilledRankLeavesWhatItDidAndAFileThatIsNoEvidence) {
  ScratchFolder folder;
  EXPECT_NE(mpirun(folder.path(), "crash").exit_code, 0);
  EXPECT_ANY_THROW(read_witness(folder.path(), "pmpi"));
  int lines_of_rank_1 = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    std::ifstream file(entry.path());
    for (std::string text; std::getline(file, text);) {
      const json line = json::parse(text);
      lines_of_rank_1 += line.at("rank") == 1 && line.at("kind") == "call";
    }
  }
  EXPECT_EQ(lines_of_rank_1, 1);
}

}  // namespace
}  // namespace s2t::test
