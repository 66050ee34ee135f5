#include "runtime/run/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "analyzer/base/diagnostics.h"

namespace s2t {
namespace {

using testing::ElementsAre;

PipelineDecl decl(const std::string& schedule, int chunks = 1,
                  const std::string& drain = "forward") {
  PipelineDecl d;
  d.schedule = schedule;
  d.chunks = chunks;
  d.drain = drain;
  return d;
}

// "F0" "B0"; messages "sf0 rb0" of one turn together; of a chunk other than the first "F0.1".
std::string words(const Turn& turn) {
  static constexpr const char* kWords[] = {"F", "B", "sf", "rf", "sb", "rb"};
  std::string text;
  for (const Deed& d : turn.deeds) {
    text += (text.empty() ? "" : " ") + std::string(kWords[static_cast<size_t>(d.doing)]) +
            std::to_string(d.microbatch);
    if (d.chunk != 0) text += "." + std::to_string(d.chunk);
  }
  return text;
}
std::vector<std::string> words(const std::vector<Turn>& turns) {
  std::vector<std::string> list;
  for (const Turn& t : turns) list.push_back(words(t));
  return list;
}

PipelinePlace place(int rank, int ranks, int microbatches, bool batched = true, int chunks = 1) {
  PipelinePlace p;
  p.rank = rank;
  p.ranks = ranks;
  p.microbatches = microbatches;
  p.chunks = chunks;
  p.batched = batched;
  return p;
}

TEST(OneForwardOneBackward, OfTwoStagesIsMegatrons) {
  EXPECT_THAT(words(turns_of(decl("1f1b"), place(0, 2, 3))),
              ElementsAre("F0", "sf0", "F1", "sf1 rb0", "B0", "F2", "sf2 rb1", "B1", "rb2", "B2"));
  EXPECT_THAT(words(turns_of(decl("1f1b"), place(1, 2, 3))),
              ElementsAre("rf0", "F0", "B0", "sb0 rf1", "F1", "B1", "sb1 rf2", "F2", "B2", "sb2"));
}

TEST(OneForwardOneBackward, OneByOneEvenRanksSendFirst) {
  EXPECT_THAT(words(turns_of(decl("1f1b"), place(0, 2, 2, false))),
              ElementsAre("F0", "sf0", "F1", "sf1", "rb0", "B0", "rb1", "B1"));
}

TEST(GPipe, DrainsForwardOrReversed) {
  EXPECT_THAT(words(turns_of(decl("gpipe"), place(1, 2, 2))),
              ElementsAre("rf0", "F0", "rf1", "F1", "B0", "sb0", "B1", "sb1"));
  EXPECT_THAT(words(turns_of(decl("gpipe", 1, "reversed"), place(1, 2, 2))),
              ElementsAre("rf0", "F0", "rf1", "F1", "B1", "sb1", "B0", "sb0"));
}

TEST(OneStage, DoesOneMicrobatchAfterTheOther) {
  EXPECT_THAT(words(turns_of_one_stage(2, true)), ElementsAre("F0", "B0", "F1", "B1"));
  EXPECT_THAT(words(turns_of_one_stage(2, false)), ElementsAre("F0", "F1"));
}

TEST(Schedules, AnUnknownOneIsAFault) {
  EXPECT_THROW(turns_of(decl("sideways"), place(0, 2, 2)), Fault);
}

// What must hold for any schedule: every microbatch of every chunk goes forward and then backward
// once, and every message has its other end.
struct Case {
  const char* schedule;
  int ranks, microbatches, chunks;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.schedule << " p" << c.ranks << " m" << c.microbatches << " v" << c.chunks;
}

class EverySchedule : public testing::TestWithParam<Case> {
 protected:
  std::vector<Deed> deeds(int rank) const {
    const Case& c = GetParam();
    std::vector<Deed> list;
    for (const Turn& t :
         turns_of(decl(c.schedule, c.chunks), place(rank, c.ranks, c.microbatches, true, c.chunks)))
      list.insert(list.end(), t.deeds.begin(), t.deeds.end());
    return list;
  }
};

TEST_P(EverySchedule, RunsEverythingOnceAndForwardFirst) {
  const Case& c = GetParam();
  for (int r = 0; r < c.ranks; ++r) {
    std::map<std::pair<int, int>, std::string> done;  // chunk, microbatch
    for (const Deed& d : deeds(r)) {
      if (d.doing == Doing::forward) done[{d.chunk, d.microbatch}] += "F";
      if (d.doing == Doing::backward) done[{d.chunk, d.microbatch}] += "B";
    }
    EXPECT_EQ(done.size(), static_cast<size_t>(c.chunks * c.microbatches));
    for (const auto& [what, order] : done) EXPECT_EQ(order, "FB");
  }
}

TEST_P(EverySchedule, EveryMessageHasItsOtherEnd) {
  const Case& c = GetParam();
  // (gradient?, stage it leaves downstream or arrives at upstream, microbatch) -> sends - receives
  std::map<std::tuple<bool, int, int>, int> open;
  std::map<std::tuple<bool, int, int>, int> sends;
  for (int r = 0; r < c.ranks; ++r)
    for (const Deed& d : deeds(r)) {
      if (d.doing == Doing::forward || d.doing == Doing::backward) continue;
      const int stage = place(r, c.ranks, c.microbatches, true, c.chunks).stage(d.chunk);
      const bool gradient = d.doing == Doing::send_backward || d.doing == Doing::recv_backward;
      const bool send = d.doing == Doing::send_forward || d.doing == Doing::send_backward;
      const int border = send != gradient ? stage + 1 : stage;  // the later of its two stages
      open[{gradient, border, d.microbatch}] += send ? 1 : -1;
      sends[{gradient, border, d.microbatch}] += send;
    }
  EXPECT_EQ(open.size(), static_cast<size_t>(2 * (c.ranks * c.chunks - 1) * c.microbatches));
  for (const auto& [border, balance] : open) EXPECT_EQ(balance, 0);
  for (const auto& [border, times] : sends) EXPECT_EQ(times, 1);
}

INSTANTIATE_TEST_SUITE_P(Cases, EverySchedule,
                         testing::Values(Case{"gpipe", 3, 4, 1}, Case{"1f1b", 4, 8, 1},
                                         Case{"1f1b", 4, 2, 1}, Case{"deepspeed", 4, 5, 1},
                                         Case{"interleaved", 2, 4, 3},
                                         Case{"interleaved", 4, 8, 2}));

}  // namespace
}  // namespace s2t
