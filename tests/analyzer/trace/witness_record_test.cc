#include "analyzer/trace/witness_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace s2t {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class WitnessFolder : public testing::Test {
 protected:
  WitnessFolder() {
    path_ = testing::TempDir() + "s2t-witness-" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~WitnessFolder() override { std::filesystem::remove_all(path_); }

  void write(const std::string& name, const std::string& lines) const {
    std::ofstream(path_ + "/" + name) << lines;
  }
  WitnessRecords read(const std::string& witness = "w") const {
    return read_witness_records(path_, witness);
  }

  std::string path_;
};

const std::string kStart = R"({"kind":"start","rank":2,"pid":9})"
                           "\n";
const std::string kCall = R"({"kind":"call","rank":2,"seq":0,"op":"send","call":"MPI_Isend",)"
                          R"("comm":"tp0","comm_size":4,"comm_rank":1,"count":3,"dtype":"float32",)"
                          R"("bytes":12,"peer":0,"send_bytes":[4,8],"recv_bytes":[0,12]})"
                          "\n";
const std::string kLaunch = R"({"kind":"launch","rank":2,"seq":1,"op":"all_reduce"})"
                            "\n";

std::string end_after(int lines) {
  return R"({"kind":"end","rank":2,"lines":)" + std::to_string(lines) + "}\n";
}

TEST_F(WitnessFolder, ReadsCallsAndLaunchesByRank) {
  write("w.9.jsonl", kStart + kCall + kLaunch + end_after(2));
  write("other.9.jsonl", kStart + kCall + end_after(1));
  const WitnessRecords records = read();
  ASSERT_EQ(records.size(), 1u);
  const WitnessRecord& r = records.at(Rank(2));
  EXPECT_THAT(r.complaints, IsEmpty());
  EXPECT_THAT(r.launches, ElementsAre("all_reduce"));
  ASSERT_EQ(r.calls.size(), 1u);
  EXPECT_EQ(r.calls[0],
            (WitnessedCall{"send", "MPI_Isend", "tp0", 1, 4, "float32", 12, 0, {4, 8}, {0, 12}}));
}

TEST_F(WitnessFolder, ARankThatDidNothingIsThere) {
  write("w.9.jsonl", kStart + end_after(0));
  EXPECT_EQ(read().at(Rank(2)), WitnessRecord());
  EXPECT_THAT(read("absent"), IsEmpty());
}

TEST_F(WitnessFolder, SeveralEndsAreOneRecord) {
  write("w.9.jsonl", kStart + kCall + end_after(1) + kLaunch + end_after(2));
  EXPECT_THAT(read().at(Rank(2)).complaints, IsEmpty());
}

TEST_F(WitnessFolder, ARecordThatIsCutShortOrLostALineComplains) {
  write("w.9.jsonl", kStart + kCall);
  EXPECT_THAT(read().at(Rank(2)).complaints, ElementsAre(HasSubstr("w.9.jsonl is cut short")));
  write("w.9.jsonl", kStart + end_after(1));
  EXPECT_THAT(read().at(Rank(2)).complaints, ElementsAre(HasSubstr("says that it has 1 lines")));
  write("w.9.jsonl", kStart + "{\"kind\":\n");
  EXPECT_THAT(read().at(Rank(2)).complaints, testing::Contains(HasSubstr("cannot be read")));
}

TEST_F(WitnessFolder, WhatAWitnessCannotVouchForComplains) {
  const std::string lines = R"({"kind":"uncovered","rank":2,"call":"MPI_Gather"})"
                            "\n"
                            R"({"kind":"error","rank":2,"call":"ncclSend","result":2,"text":"no"})"
                            "\n"
                            R"({"kind":"totals","rank":2,"other_kernels":1,"dropped":7})"
                            "\n";
  write("w.9.jsonl", kStart + lines + end_after(3));
  EXPECT_THAT(
      read().at(Rank(2)).complaints,
      ElementsAre(HasSubstr("MPI_Gather"), HasSubstr("ncclSend: no"), HasSubstr("lost 7 records")));
}

TEST_F(WitnessFolder, TwoRunsInOneFolderComplain) {
  write("w.8.jsonl", kStart + kCall + end_after(1));
  write("w.9.jsonl", kStart + kCall + end_after(1));
  EXPECT_THAT(read().at(Rank(2)).complaints, ElementsAre(HasSubstr("not fresh")));
  write("w.9.jsonl", kStart + end_after(0));  // a helper process of that rank
  EXPECT_THAT(read().at(Rank(2)).complaints, IsEmpty());
}

}  // namespace
}  // namespace s2t
