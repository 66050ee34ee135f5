// What the judge makes of ranks and strangers that do not keep to the protocol.
#include "runtime/comm/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

namespace s2t {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class OneRank : public testing::Test {
 protected:
  OneRank() : judge(1, 2s, listen_on(false, 0), "token", Judge::Sight::none) {}

  Descriptor call() const { return connect_to("127.0.0.1", judge.port(), 2s); }
  static Packet hello() {
    return Packet().put(Request::hello).put_text("token").put(Rank(0)).put(1).put<pid_t>(0);
  }
  Descriptor joined() const {
    Descriptor rank = call();
    EXPECT_TRUE(send_frame(rank, hello()));
    EXPECT_TRUE(receive_frame(rank).has_value());
    return rank;
  }
  std::string cause() const {
    for (int i = 0; i < 200 && !judge.over(); ++i) std::this_thread::sleep_for(10ms);
    const RunResult result = judge.result();
    return result.failures.empty() ? "" : result.failures[0].text;
  }

  Judge judge;
};

TEST_F(OneRank, ThatSaysNothingUnderstandableFailsTheRunByName) {
  const Descriptor rank = joined();
  ASSERT_TRUE(send_frame(rank, Packet()));
  EXPECT_THAT(cause(), HasSubstr("rank 0 died"));
  EXPECT_THAT(cause(), HasSubstr("what it says is not understood: a control message is shorter"));
  EXPECT_FALSE(receive_frame(rank).has_value());  // it is not left waiting
}

TEST_F(OneRank, ThatAnnouncesMoreThanThereIsFailsTheRunByName) {
  const Descriptor rank = joined();
  ASSERT_TRUE(send_frame(
      rank,
      Packet().put(Request::create_group).put_text("tp0").put_list(std::vector<Rank>{Rank(0)})));
  ASSERT_TRUE(receive_frame(rank).has_value());
  ASSERT_TRUE(send_frame(rank, Packet()
                                   .put(Request::messages)
                                   .put_text("forward")
                                   .put_text("")
                                   .put<size_t>(0)
                                   .put(0)
                                   .put<size_t>(SIZE_MAX)));
  EXPECT_THAT(cause(), HasSubstr("rank 0 died"));
}

TEST_F(OneRank, WhoseFrameNoMemoryHoldsFailsTheRunByName) {
  const Descriptor rank = joined();
  const uint64_t length = UINT64_MAX;
  ASSERT_EQ(::send(rank.get(), &length, sizeof length, 0), 8);
  EXPECT_THAT(cause(), HasSubstr("rank 0 died in its start: out of memory for what it says"));
}

TEST_F(OneRank, IsNotDisturbedByStrangers) {
  const Descriptor large = call(), empty = call();
  const uint64_t length = uint64_t{1} << 33;
  ASSERT_EQ(::send(large.get(), &length, sizeof length, 0), 8);
  EXPECT_FALSE(receive_frame(large).has_value());
  ASSERT_TRUE(send_frame(empty, Packet()));
  EXPECT_FALSE(receive_frame(empty).has_value());
  EXPECT_FALSE(judge.failed());
  EXPECT_TRUE(joined().open());
}

TEST(Frames, OfAnyLengthPassBetweenThoseWhoKnowEachOther) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Descriptor a(ends[0]), b(ends[1]);
  ASSERT_TRUE(send_frame(a, Packet(std::string(5000, 'x'))));
  ASSERT_TRUE(send_frame(a, Packet(std::string(5000, 'x'))));
  EXPECT_EQ(receive_frame(b)->bytes().size(), 5000u);
  EXPECT_FALSE(receive_frame(b, 4096).has_value());
}

}  // namespace
}  // namespace s2t
