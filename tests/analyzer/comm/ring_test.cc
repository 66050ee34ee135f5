#include "analyzer/comm/ring.h"

#include <gmock/gmock.h>

namespace s2t {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Ring, HandsOperandsOnUntilAllHaveSeenThem) {
  EXPECT_THAT(ring_forward(1), IsEmpty());
  EXPECT_THAT(ring_forward(2), ElementsAre(RingExchange{1, true, false}));
  EXPECT_EQ(ring_forward(8).size(), 7u);
}

// One more than forward: the gradients arrive at home one exchange after the last operands.
TEST(Ring, GradientsFollowTheOperandsBackAndComeHomeAlone) {
  EXPECT_THAT(ring_backward(1), IsEmpty());
  EXPECT_THAT(ring_backward(2),
              ElementsAre(RingExchange{-1, true, false}, RingExchange{-1, false, true}));
  EXPECT_THAT(ring_backward(4),
              ElementsAre(RingExchange{-1, true, false}, RingExchange{-1, true, true},
                          RingExchange{-1, true, true}, RingExchange{-1, false, true}));
}

TEST(Ring, LaunchesTheTwoMessagesOfARingOfTwoTogether) {
  EXPECT_TRUE(launched_together(RingLaunch::pairs, 2));
  EXPECT_FALSE(launched_together(RingLaunch::pairs, 3));
  EXPECT_FALSE(launched_together(RingLaunch::single, 2));
  EXPECT_TRUE(launched_together(RingLaunch::batched, 8));
}

}  // namespace
}  // namespace s2t
