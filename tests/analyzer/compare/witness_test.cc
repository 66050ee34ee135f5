#include "analyzer/compare/witness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/analyze.h"
#include "analyzer/compare/compare.h"
#include "analyzer/io/model_json.h"

namespace s2t {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A model, a perfect record of its run, and room for what a witness saw.
class WitnessOf : public testing::Test {
 protected:
  void use(const std::string& name) {
    program_ = analyze(load_model(S2T_SOURCE_DIR "/models/" + name + ".json"));
    recorded_.assign(static_cast<size_t>(program_.mesh.world()), {});
    seen_.clear();
    const auto events = events_by_rank(program_);
    for (size_t r = 0; r < events.size(); ++r) {
      seen_[Rank(r)];
      for (const Event& e : events[r]) recorded_[r].push_back(observation_of(program_, e, Rank(r)));
    }
  }
  void call(int rank, const std::string& op, const std::string& comm, int position, Count bytes,
            std::optional<int64_t> peer = {}, const std::string& dtype = "float32") {
    WitnessedCall c;
    c.op = op;
    c.comm = comm;
    c.comm_rank = position;
    c.comm_size = 2;
    c.dtype = dtype;
    c.bytes = bytes;
    c.peer = peer;
    seen_[Rank(rank)].calls.push_back(c);
  }
  // tp_sp_b128 as MPI is asked for it. NCCL's plan would speak of gathers in int8.
  void see_tp_sp(const std::string& gathered = "float32") {
    use("tp_sp_b128");
    for (int r = 0; r < 4; ++r) {
      const std::string tp = "tp" + std::to_string(r / 2), dp = "dp" + std::to_string(r % 2);
      for (int pass = 0; pass < 2; ++pass) {
        call(r, "reduce_scatter", tp, r % 2, 131072);
        call(r, "all_gather", tp, r % 2, 131072, {}, gathered);
      }
      for (int weight = 0; weight < 2; ++weight) call(r, "all_reduce", dp, r / 2, 1048576);
    }
  }
  std::vector<Disagreement> disagreements(const std::string& witness) const {
    return compare_with_witness(program_, recorded_, witness, seen_);
  }
  std::vector<WitnessedCall>& calls(int rank) { return seen_[Rank(rank)].calls; }

  Program program_;
  std::vector<std::vector<Observation>> recorded_;
  WitnessRecords seen_;
};

TEST_F(WitnessOf, AnHonestRunAgrees) {
  see_tp_sp();
  EXPECT_THAT(disagreements("pmpi"), IsEmpty());
  EXPECT_THAT(disagreements("pnccl"), IsEmpty());
}

TEST_F(WitnessOf, ADroppedCallIsNamedInBothAccounts) {
  see_tp_sp();
  calls(1).erase(calls(1).begin() + 2);
  const auto found = disagreements("pmpi");
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].rank, Rank(1));
  EXPECT_EQ(found[0].event, 2);
  EXPECT_THAT(found[0].text, HasSubstr("rank 1: event 2 (reduce_scatter of y, backward)"));
  EXPECT_THAT(found[1].text, HasSubstr("call 2 of the runtime's own record"));
}

TEST_F(WitnessOf, TheLastCallMissingAndOneTooMany) {
  see_tp_sp();
  calls(0).pop_back();
  calls(3).push_back(calls(3).back());
  const auto found = disagreements("pmpi");
  ASSERT_THAT(found, SizeIs(4));
  EXPECT_EQ(found[0].event, 5);
  EXPECT_THAT(found[0].text, HasSubstr("pmpi saw as call 5 nothing more"));
  EXPECT_EQ(found[2].rank, Rank(3));
  EXPECT_THAT(found[2].text, HasSubstr("a call 6, all_reduce on dp1"));
}

TEST_F(WitnessOf, EveryFieldThatItSeesIsCompared) {
  const auto disagrees = [&](const std::function<void(WitnessedCall&)>& change) {
    see_tp_sp();
    change(calls(2).at(1));
    const auto found = disagreements("pnccl");
    return !found.empty() && found[0].event == 1 && found[0].rank == Rank(2);
  };
  EXPECT_TRUE(disagrees([](WitnessedCall& c) { c.op = "broadcast"; }));
  EXPECT_TRUE(disagrees([](WitnessedCall& c) { c.comm = "tp0"; }));
  EXPECT_TRUE(disagrees([](WitnessedCall& c) { c.comm_rank = 1; }));
  EXPECT_TRUE(disagrees([](WitnessedCall& c) { c.comm_size = 4; }));
  EXPECT_TRUE(disagrees([](WitnessedCall& c) { c.bytes += 4; }));
  EXPECT_TRUE(disagrees([](WitnessedCall& c) { c.dtype = "int32"; }));
  EXPECT_FALSE(disagrees([](WitnessedCall& c) { c.dtype = c.comm = ""; }));  // it does not know
}

TEST_F(WitnessOf, TheRuntimesOwnRecordIsCheckedAsWell) {
  see_tp_sp();
  recorded_[2][4].elements = 1;
  const auto found = disagreements("pmpi");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_FALSE(found[0].event.has_value());
  EXPECT_THAT(found[0].text, HasSubstr("rank 2: call 4 of the runtime's own record"));
}

TEST_F(WitnessOf, ARankThatNobodyWatchedAndAComplaintAreDisagreements) {
  see_tp_sp();
  seen_.erase(Rank(0));
  seen_[Rank(3)].complaints.push_back("pmpi.7.jsonl is cut short");
  const auto found = disagreements("pmpi");
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].text, "rank 0: pmpi wrote nothing about it");
  EXPECT_EQ(found[1].text, "rank 3: pmpi.7.jsonl is cut short");
}

TEST_F(WitnessOf, NcclsPlanSpeaksOfGathersInBytesAndCountsLaunches) {
  see_tp_sp("int8");
  for (int r = 0; r < 4; ++r) seen_[Rank(r)].launches.assign(6, "");
  EXPECT_THAT(disagreements("ncclprof"), IsEmpty());
  seen_[Rank(1)].launches.pop_back();
  ASSERT_THAT(disagreements("ncclprof"), SizeIs(2));
  EXPECT_EQ(disagreements("ncclprof")[0].text, "rank 1: 6 kernels are expected, ncclprof saw 5");
}

TEST_F(WitnessOf, AGpuKnowsKernelsByName) {
  see_tp_sp();
  const std::vector<std::string> kernels = {"reduce_scatter", "all_gather", "reduce_scatter",
                                            "all_gather",     "all_reduce", "all_reduce"};
  for (int r = 0; r < 4; ++r) seen_[Rank(r)] = {{}, kernels, {}};
  EXPECT_THAT(disagreements("cupti"), IsEmpty());
  seen_[Rank(2)].launches[0] = "other";  // a generic kernel may be any
  EXPECT_THAT(disagreements("cupti"), IsEmpty());
  seen_[Rank(2)].launches[0] = "all_reduce";
  EXPECT_THAT(disagreements("cupti").at(0).text, HasSubstr("1 more kernels of all_reduce"));
  seen_[Rank(2)].launches.clear();
  EXPECT_THAT(disagreements("cupti").at(0).text, HasSubstr("6 kernels are expected, cupti saw 0"));
}

// Rank 1 of ep_skewed keeps 8 of its 64 rows of 512 floats and sends 56.
TEST_F(WitnessOf, AnAllToAllIsOneCallOfMpiAndMessagesOfNccl) {
  use("ep_skewed");
  const Observation all_to_all = recorded_[1].at(0);
  program_.stages[0].forward.items.resize(2);  // ranks 0 and 2, ranks 1 and 3
  program_.stages[0].backward.items.clear();
  program_.after.clear();
  const auto events = events_by_rank(program_);
  for (size_t r = 0; r < 4; ++r) {
    recorded_[r].clear();
    for (const Event& e : events[r]) recorded_[r].push_back(observation_of(program_, e, Rank(r)));
  }
  std::erase_if(seen_, [](const auto& of) { return of.first != Rank(1); });

  const auto of_rank_1 = [&](const std::string& witness) {
    std::vector<std::string> texts;
    for (const Disagreement& d : disagreements(witness))
      if (d.rank == Rank(1)) texts.push_back(d.text);
    return texts;
  };
  ASSERT_THAT(recorded_[1], SizeIs(1));
  WitnessedCall c{"all_to_all", "", "ep0", 1, 2, "float32", 131072, {}, {}, {}};
  for (const Count n : *all_to_all.sends) c.send_bytes.push_back(4 * n);
  for (const Count n : *all_to_all.recvs) c.recv_bytes.push_back(4 * n);
  calls(1) = {c};
  EXPECT_THAT(of_rank_1("pmpi"), IsEmpty());
  std::swap(calls(1)[0].send_bytes[0], calls(1)[0].send_bytes[1]);
  EXPECT_THAT(of_rank_1("pmpi"), SizeIs(2));

  calls(1).clear();
  for (const int peer : {0, 1}) {
    call(1, "send", "ep0", 1, c.send_bytes[static_cast<size_t>(peer)], peer);
    call(1, "recv", "ep0", 1, c.recv_bytes[static_cast<size_t>(peer)], peer);
  }
  EXPECT_THAT(of_rank_1("pnccl"), IsEmpty());
  std::swap(calls(1)[0], calls(1)[3]);
  EXPECT_THAT(of_rank_1("pnccl"), SizeIs(2));     // asked in this order
  EXPECT_THAT(of_rank_1("ncclprof"), IsEmpty());  // NCCL plans as it likes
  calls(1)[0].peer = 0;
  EXPECT_THAT(of_rank_1("ncclprof"), SizeIs(2));
}

}  // namespace
}  // namespace s2t
