#include "runtime/run/shard.h"

#include <gtest/gtest.h>

#include <cmath>

namespace s2t {
namespace {

Mesh mesh_of(std::vector<int64_t> sizes) {
  std::vector<AxisShape> axes;
  for (size_t i = 0; i < sizes.size(); ++i)
    axes.push_back({std::string(1, static_cast<char>('a' + i)), sizes[i], AxisKind::model, {}});
  return Mesh(axes, {});
}

Layout layout_of(std::vector<Placement> placements) {
  Layout layout(placements.size());
  for (size_t i = 0; i < placements.size(); ++i) layout[AtomIndex(i)] = placements[i];
  return layout;
}

Tensor counting(Shape shape) {
  Tensor t(shape, DType::f32);
  std::vector<double> numbers;
  for (int64_t i = 0; i < t.size(); ++i) numbers.push_back(static_cast<double>(i + 1));
  t.write<double>(numbers);
  return t;
}

// Everybody's part, put together again.
Assembled round_trip(const Tensor& full, const Layout& layout, const Mesh& mesh) {
  std::vector<Held> parts;
  std::vector<Rank> ranks;
  for (int32_t r = 0; r < mesh.world(); ++r) {
    ranks.push_back(Rank(r));
    parts.push_back({shard(full, layout, mesh, Rank(r)), layout, {}});
  }
  return assemble(full.shape(), DType::f64, mesh, ranks,
                  [&](Rank r) -> const Held& { return parts[r.at()]; });
}

TEST(Region, UnevenBlocksShrinkAtTheEnd) {
  const Mesh mesh = mesh_of({4});
  const Layout rows = layout_of({Placement::S(0)});
  std::vector<int64_t> begins, sizes;
  for (int32_t r = 0; r < 4; ++r) {
    const Region region = region_of({5, 3}, rows, mesh, Rank(r));
    begins.push_back(region.begin[0]);
    sizes.push_back(region.size[0]);
    EXPECT_EQ(region.size[1], 3);
  }
  EXPECT_EQ(begins, (std::vector<int64_t>{0, 2, 4, 5}));
  EXPECT_EQ(sizes, (std::vector<int64_t>{2, 2, 1, 0}));
}

TEST(Region, OfADimThatTwoAxesCutTheSlowerIsMajor) {
  const Mesh mesh = mesh_of({2, 2});  // rank = 2 a + b
  const Layout both = layout_of({Placement::S(0), Placement::S(0)});
  for (int32_t r = 0; r < 4; ++r) EXPECT_EQ(region_of({8}, both, mesh, Rank(r)).begin[0], 2 * r);
}

TEST(Shard, PartsMakeUpTheWholeAgain) {
  const Mesh mesh = mesh_of({2, 3});
  for (const Layout& layout :
       {layout_of({Placement::R(), Placement::R()}), layout_of({Placement::S(0), Placement::S(1)}),
        layout_of({Placement::S(1), Placement::S(1)}), layout_of({Placement::P(), Placement::S(0)}),
        layout_of({Placement::P(), Placement::P()})}) {
    const Tensor full = counting({5, 7});
    const Assembled a = round_trip(full, layout, mesh);
    EXPECT_EQ(max_abs_difference(a.whole, full), 0);
    EXPECT_EQ(a.replica_difference, 0);
  }
}

TEST(Assemble, ReplicasThatDifferAreMeasured) {
  const Mesh mesh = mesh_of({2});
  const Layout layout = layout_of({Placement::R()});
  const std::vector<Held> parts = {{counting({3}), layout, {}},
                                   {Tensor::of({3}, DType::f32, {1, 2, 3.5}), layout, {}}};
  const std::vector<Rank> ranks = {Rank(0), Rank(1)};
  const Assembled a =
      assemble({3}, DType::f64, mesh, ranks, [&](Rank r) -> const Held& { return parts[r.at()]; });
  EXPECT_EQ(a.replica_difference, 0.5);
  EXPECT_EQ(a.whole.at(2), 3);  // the first one counts
}

TEST(Assemble, WhatNobodyOwnsIsNoNumber) {
  const Mesh mesh = mesh_of({2});
  const Layout layout = layout_of({Placement::R()});
  const std::vector<Held> parts = {{counting({3}), layout, {{0, 1}}},
                                   {counting({3}), layout, {{2, 3}}}};
  const std::vector<Rank> ranks = {Rank(0), Rank(1)};
  const Assembled a =
      assemble({3}, DType::f64, mesh, ranks, [&](Rank r) -> const Held& { return parts[r.at()]; });
  EXPECT_EQ(a.whole.at(0), 1);
  EXPECT_TRUE(std::isnan(a.whole.at(1)));
  EXPECT_EQ(a.whole.at(2), 3);
}

TEST(Resized, GrowsWithZerosAndCutsAtTheEnd) {
  const Tensor t = counting({2, 2});
  EXPECT_EQ(resized(t, {3, 1}), Tensor::of({3, 1}, DType::f32, {1, 3, 0}));
  EXPECT_EQ(resized(t, {2, 2}), t);
}

}  // namespace
}  // namespace s2t
