#include "analyzer/layout/layout.h"

#include <gtest/gtest.h>

namespace s2t {
namespace {

Mesh mesh_dp_tp() {
  return Mesh({{"dp", 2, AxisKind::data, {}}, {"tp", 4, AxisKind::model, {}}}, {});
}

Layout layout(std::initializer_list<Placement> placements) {
  Layout l(placements.size());
  size_t i = 0;
  for (const Placement p : placements) l[AtomIndex(i++)] = p;
  return l;
}

const Placement R = Placement::R(), P = Placement::P();

TEST(Placement, PrintsAsModelsWriteIt) {
  EXPECT_EQ(to_string(R), "R");
  EXPECT_EQ(to_string(Placement::S(1)), "S(1)");
  EXPECT_EQ(to_string(P), "P");
  EXPECT_EQ(to_string(Placement::P(Combiner::max)), "P(max)");
}

TEST(Layout, PrintsPerAxisAndLeavesReplicasOut) {
  const Mesh mesh = mesh_dp_tp();
  EXPECT_EQ(to_string(Layout(mesh), mesh), "R");
  EXPECT_EQ(to_string(layout({R, Placement::S(0)}), mesh), "tp:S(0)");
  EXPECT_EQ(to_string(layout({P, Placement::S(1)}), mesh), "dp:P tp:S(1)");
}

TEST(Layout, AnAxisOfSeveralAtomsPrintsOnce) {
  const Mesh mesh({{"dp", 4, AxisKind::data, {}}, {"tp", 2, AxisKind::model, {}}},
                  {{"edp", 2, AxisKind::data, {}}, {"ep", 4, AxisKind::data, {}}});
  ASSERT_EQ(mesh.atoms().size(), 3u);
  EXPECT_EQ(to_string(layout({Placement::S(0), Placement::S(0), R}), mesh), "dp:S(0)");
  EXPECT_EQ(to_string(layout({R, Placement::S(0), Placement::S(0)}), mesh), "ep:S(0)");
}

TEST(Layout, SaysWhichAxesShardADimAndWhichHoldTerms) {
  const Layout l = layout({Placement::S(1), Placement::S(1), P, R});
  EXPECT_EQ(l.sharding(1), 0b0011u);
  EXPECT_EQ(l.sharding(0), 0u);
  EXPECT_EQ(l.partial(), 0b0100u);
  EXPECT_TRUE(l.any_partial());
  EXPECT_FALSE(layout({R, Placement::S(0)}).any_partial());
}

TEST(Layout, ALocalShapeDividesTheShardedDims) {
  const Mesh mesh = mesh_dp_tp();
  EXPECT_EQ(local_shape({8, 12}, layout({Placement::S(0), Placement::S(1)}), mesh), (Shape{4, 3}));
  EXPECT_EQ(local_shape({8, 12}, layout({Placement::S(0), Placement::S(0)}), mesh), (Shape{1, 12}));
  EXPECT_EQ(local_shape({8, 12}, layout({P, R}), mesh), (Shape{8, 12}));
  EXPECT_EQ(shards(layout({Placement::S(0), Placement::S(0)}), 0, mesh), 8);
}

TEST(Layout, ADimThatDoesNotDivideIsRoundedUp) {
  EXPECT_EQ(local_shape({10}, layout({R, Placement::S(0)}), mesh_dp_tp()), (Shape{3}));
}

TEST(Layout, ElementCountsNeverWrap) {
  EXPECT_EQ(elements({}), 1u);
  EXPECT_EQ(elements({3, 0, 5}), 0u);
  EXPECT_THROW(elements({int64_t{1} << 40, int64_t{1} << 40}), Overflow);
}

}  // namespace
}  // namespace s2t
