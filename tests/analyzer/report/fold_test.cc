#include "analyzer/report/fold.h"

#include <gmock/gmock.h>

#include <string>

namespace s2t {
namespace {

using testing::ElementsAre;
using Found = Run;  // a test has a Run of its own

// Runs of equal letters or blocks of letters.
std::vector<Found> runs(const std::string& text, size_t longest = 100) {
  return find_runs(0, text.size(), longest, [&](size_t i, size_t j) { return text[i] == text[j]; });
}

TEST(FindRuns, NothingRepeatsInDistinctPositions) {
  EXPECT_TRUE(runs("abcdef").empty());
  EXPECT_TRUE(runs("").empty());
}

TEST(FindRuns, ABlockIsFoldedFromTwoOn) {
  EXPECT_THAT(runs("abcbcd"), ElementsAre(Found{1, 2, 2}));
}

TEST(FindRuns, ASinglePositionIsFoldedFromThreeOn) {
  EXPECT_TRUE(runs("aab").empty());
  EXPECT_THAT(runs("xaaay"), ElementsAre(Found{1, 1, 3}));
}

TEST(FindRuns, TheShortestPeriodOfTheLongestCover) {
  EXPECT_THAT(runs("abababab"), ElementsAre(Found{0, 2, 4}));
}

TEST(FindRuns, AnIncompleteLastBlockStaysOutside) {
  EXPECT_THAT(runs("abcabcab"), ElementsAre(Found{0, 3, 2}));
}

TEST(FindRuns, SeveralRunsAreDisjoint) {
  EXPECT_THAT(runs("ababxcdcdcd"), ElementsAre(Found{0, 2, 2}, Found{5, 2, 3}));
}

TEST(FindRuns, NoPeriodBeyondTheLongest) {
  EXPECT_TRUE(runs("abcdabcd", 3).empty());
}

}  // namespace
}  // namespace s2t
