#include "analyzer/mesh/mesh.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "analyzer/mesh/family.h"

namespace s2t {
namespace {

using Groups = std::vector<std::vector<int>>;

AxisShape axis(std::string name, int64_t size, std::vector<AxisShape> parts = {}) {
  return {std::move(name), size, AxisKind::model, std::move(parts)};
}

// The family of some named axes.
Family family(const Mesh& mesh, const std::vector<std::string>& names) {
  AtomSet set = 0;
  for (const std::string& name : names) set |= mesh.find(name)->atoms;
  return mesh.family_of(set);
}

Groups groups(const Mesh& mesh, const std::vector<std::string>& names) {
  Groups out;
  for (const auto& group : mesh.groups(family(mesh, names))) {
    out.emplace_back();
    for (const Rank r : group) out.back().push_back(r.value);
  }
  return out;
}

std::vector<int> first(const Mesh& mesh, const std::vector<std::string>& names, size_t i = 0) {
  return groups(mesh, names).at(i);
}

Mesh random_mesh(std::mt19937& random) {
  std::vector<AxisShape> axes;
  const size_t count = random() % 4 + 1;
  for (size_t i = 0; i < count; ++i)
    axes.push_back(axis("a" + std::to_string(i), static_cast<int64_t>(random() % 4 + 1)));
  return Mesh(axes, {});
}

TEST(Mesh, RanksAndCoordinatesAreABijection) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const Mesh mesh = random_mesh(random);
    std::set<std::vector<int64_t>> seen;
    for (int r = 0; r < mesh.world(); ++r) {
      std::vector<int64_t> c;
      for (size_t a = 0; a < mesh.atoms().size(); ++a)
        c.push_back(mesh.coordinate(Rank(r), AtomIndex(a)));
      EXPECT_EQ(mesh.rank_of(c), Rank(r));
      EXPECT_TRUE(seen.insert(c).second);
    }
  }
}

TEST(Mesh, TheGroupsOfAnyFamilyPartitionTheRanks) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const Mesh mesh = random_mesh(random);
    const auto set = static_cast<AtomSet>(random() % (1u << mesh.atoms().size()));
    const Family f = mesh.family_of(set);
    std::set<int> seen;
    for (const auto& group : mesh.groups(f)) {
      EXPECT_EQ(static_cast<int64_t>(group.size()), mesh.group_size(f));
      EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
      for (const Rank r : group) {
        EXPECT_TRUE(seen.insert(r.value).second);
        EXPECT_EQ(mesh.group_of(f, r), group);
      }
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), mesh.world());
    EXPECT_EQ(static_cast<int64_t>(mesh.groups(f).size()), mesh.group_count(f));
  }
}

TEST(Mesh, RanksOfAGroupDifferOnlyAlongItsAxes) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const Mesh mesh = random_mesh(random);
    const auto set = static_cast<AtomSet>(random() % (1u << mesh.atoms().size()));
    for (const auto& group : mesh.groups(mesh.family_of(set)))
      for (const Rank r : group)
        for (size_t a = 0; a < mesh.atoms().size(); ++a)
          if (!contains(set, AtomIndex(a))) {
            EXPECT_EQ(mesh.coordinate(r, AtomIndex(a)), mesh.coordinate(group[0], AtomIndex(a)));
          }
  }
}

// Note 1: rank = inner + 2 outer, one mesh per test.
TEST(Mesh, AFamilyHasAStrideIfItsRanksAreEvenlySpaced) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    const Mesh mesh = random_mesh(random);
    for (AtomSet set = 0; set < AtomSet{1} << mesh.atoms().size(); ++set) {
      const Family all = mesh.family_of(set);
      const std::vector<Rank> group = mesh.group_of(all, Rank(0));
      std::set<int64_t> gaps;
      for (size_t i = 1; i < group.size(); ++i) gaps.insert(group[i].value - group[i - 1].value);
      const auto even = gaps.size() <= 1 ? std::optional(gaps.empty() ? 1 : *gaps.begin())
                                         : std::optional<int64_t>();
      EXPECT_EQ(mesh.stride(all), even) << all.name;
    }
  }
}

TEST(Mesh, Note1HasItsInnerAndOuterGroups) {
  for (const char* inner : {"tp", "pp", "ep"}) {
    const Mesh mesh({axis("dp", 2), axis(inner, 2)}, {});
    EXPECT_EQ(groups(mesh, {inner}), (Groups{{0, 1}, {2, 3}}));
    EXPECT_EQ(groups(mesh, {"dp"}), (Groups{{0, 2}, {1, 3}}));
  }
}

// Note 2: rank = 4d + 2p + t. Megatron order tp-pp-dp, DeviceMesh (dp, pp, tp).
TEST(Mesh, Note2HasDataParallelismSlowest) {
  const Mesh mesh({axis("dp", 2), axis("pp", 2), axis("tp", 2)}, {});
  EXPECT_EQ(groups(mesh, {"tp"}), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups(mesh, {"pp"}), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups(mesh, {"dp"}), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups(mesh, {"tp", "pp"}), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

// The same degrees in Megatron's default order tp-cp-ep-dp-pp: pipeline slowest.
TEST(Mesh, MegatronsDefaultOrderSwapsDataAndPipelineGroups) {
  const Mesh mesh({axis("pp", 2), axis("dp", 2), axis("tp", 2)}, {});
  EXPECT_EQ(groups(mesh, {"tp"}), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups(mesh, {"dp"}), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups(mesh, {"pp"}), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups(mesh, {"tp", "pp"}), (Groups{{0, 1, 4, 5}, {2, 3, 6, 7}}));
}

TEST(Mesh, DeepSpeedsTopologyIsPipeDataModel) {
  const Mesh mesh({axis("pipe", 2), axis("data", 2), axis("model", 2)}, {});
  EXPECT_EQ(first(mesh, {"model"}), (std::vector{0, 1}));
  EXPECT_EQ(groups(mesh, {"data"}), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(first(mesh, {"pipe"}), (std::vector{0, 4}));
}

// 16 ranks, tp 2, cp 2, dp 4, ep 2. Megatron core 0.8 carves ep out of dp, after cp ...
TEST(Mesh, ExpertGroupsCarvedFromDataParallelismStrideOverTpAndCp) {
  const Mesh mesh({axis("dp", 4), axis("cp", 2), axis("tp", 2)},
                  {axis("edp", 2), axis("ep", 2), axis("cp", 2), axis("tp", 2)});
  EXPECT_EQ(groups(mesh, {"ep"}),
            (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
  EXPECT_EQ(first(mesh, {"edp"}), (std::vector{0, 8}));
  EXPECT_EQ(first(mesh, {"edp"}, 1), (std::vector{1, 9}));
  EXPECT_EQ(first(mesh, {"edp", "cp"}), (std::vector{0, 2, 8, 10}));
  EXPECT_EQ(first(mesh, {"tp", "ep"}), (std::vector{0, 1, 4, 5}));
}

// ... and from core 0.10 folds it over cp and dp: the same degrees, other groups.
TEST(Mesh, FoldedExpertGroupsOfTheSameDegreesAreOthers) {
  const Mesh mesh({axis("dp", 4), axis("cp", 2), axis("tp", 2)},
                  {axis("edp", 4), axis("ep", 2), axis("etp", 2)});
  EXPECT_EQ(first(mesh, {"ep"}), (std::vector{0, 2}));
  EXPECT_EQ(first(mesh, {"ep"}, 1), (std::vector{1, 3}));
  EXPECT_EQ(first(mesh, {"ep"}, 2), (std::vector{4, 6}));
  EXPECT_EQ(first(mesh, {"edp"}), (std::vector{0, 4, 8, 12}));
  EXPECT_EQ(first(mesh, {"etp", "ep"}), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(first(mesh, {"cp"}), (std::vector{0, 2}));
  EXPECT_EQ(first(mesh, {"dp"}), (std::vector{0, 4, 8, 12}));
  EXPECT_EQ(first(mesh, {"dp", "cp"}), (std::vector{0, 2, 4, 6, 8, 10, 12, 14}));
}

TEST(Mesh, WithoutExpertTensorParallelismExpertGroupsAreConsecutive) {
  const Mesh mesh({axis("dp", 4), axis("cp", 2), axis("tp", 2)},
                  {axis("edp", 4), axis("ep", 4), axis("etp", 1)});
  EXPECT_EQ(first(mesh, {"ep"}), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(first(mesh, {"ep"}, 1), (std::vector{4, 5, 6, 7}));
  EXPECT_EQ(first(mesh, {"edp"}), (std::vector{0, 4, 8, 12}));
}

TEST(Mesh, DeepSpeedsExpertGroupsStrideOverTp) {
  const Mesh mesh({axis("dp", 8), axis("tp", 2)}, {axis("edp", 2), axis("ep", 4), axis("tp", 2)});
  EXPECT_EQ(first(mesh, {"ep"}), (std::vector{0, 2, 4, 6}));
  EXPECT_EQ(first(mesh, {"edp"}), (std::vector{0, 8}));
}

// Llama 3, figure 5: order TP, CP, PP, DP of sizes 8, 16, 16, 8.
TEST(Mesh, TheRankOfLlama3sExampleIs5035) {
  const Mesh mesh({axis("dp", 8), axis("pp", 16), axis("cp", 16), axis("tp", 8)}, {});
  EXPECT_EQ(mesh.world(), 16384);
  EXPECT_EQ(mesh.rank_of({2, 7, 5, 3}), Rank(5035));
  const Mesh small({axis("dp", 2), axis("pp", 2), axis("cp", 2), axis("tp", 2)}, {});
  EXPECT_EQ(first(small, {"tp"}), (std::vector{0, 1}));
  EXPECT_EQ(first(small, {"cp"}), (std::vector{0, 2}));
  EXPECT_EQ(first(small, {"pp"}), (std::vector{0, 4}));
  EXPECT_EQ(first(small, {"dp"}), (std::vector{0, 8}));
}

TEST(Mesh, FactorisationsThatDoNotNestAreRefusedWithTheAxes) {
  const auto why = Mesh::conflict({axis("dp", 3), axis("tp", 4)}, {axis("edp", 2), axis("ep", 6)});
  ASSERT_TRUE(why);
  EXPECT_EQ(*why,
            "axis \"tp\" (size 4) and expert axis \"ep\" (size 6) do not nest: one ends at rank "
            "stride 4, the other at 6, and neither divides the other");
  EXPECT_EQ(Mesh::conflict({axis("dp", 2)}, {axis("ep", 4)}),
            "the expert axes multiply to 4 ranks and the dense axes to 2");
  EXPECT_EQ(Mesh::conflict({axis("dp", 4), axis("tp", 2)}, {axis("edp", 2), axis("ep", 4)}),
            std::nullopt);
}

TEST(Mesh, PartsOfAnAxisAreRunsOfItsRanks) {
  const Mesh mesh({axis("dp", 2), axis("tp", 16, {axis("kv", 8), axis("kvrep", 2)})}, {});
  EXPECT_EQ(first(mesh, {"kvrep"}), (std::vector{0, 1}));
  EXPECT_EQ(first(mesh, {"kv"}), (std::vector{0, 2, 4, 6, 8, 10, 12, 14}));
  EXPECT_EQ(family(mesh, {"kv", "kvrep"}).name, "tp");
}

TEST(Mesh, AFamilyIsNamedAfterTheAxesThatTileIt) {
  const Mesh mesh({axis("pp", 2), axis("dp", 2), axis("cp", 2), axis("tp", 2)}, {});
  EXPECT_EQ(family(mesh, {"dp", "cp"}).name, "dp-cp");
  EXPECT_EQ(family(mesh, {"tp", "pp"}).axes, (std::vector<std::string>{"pp", "tp"}));
  EXPECT_EQ(mesh.stride(family(mesh, {"dp", "cp"})), 2);
  EXPECT_EQ(mesh.stride(family(mesh, {"pp", "tp"})), std::nullopt);
}

// DeepSeek-V3 with tp 2, ep 8, expert tp 1: ep reaches over tp and beyond it.
TEST(Mesh, AFamilyThatDenseAxesCannotTileIsNamedAfterExpertAxes) {
  const Mesh mesh({axis("pp", 4), axis("dp", 8), axis("tp", 2)},
                  {axis("pp", 4), axis("edp", 2), axis("ep", 8)});
  EXPECT_EQ(family(mesh, {"pp", "ep"}).name, "pp-ep");
  EXPECT_EQ(family(mesh, {"edp", "ep"}).name, "dp-tp");  // the same ranks
  EXPECT_EQ(family(mesh, {"pp", "tp"}).name, "pp-tp");
  EXPECT_EQ(family(mesh, {"pp", "edp"}).name, "pp-edp");
}

TEST(Mesh, AFamilyMayHoldOnlySomeCoordinates) {
  const Mesh mesh({axis("pp", 4), axis("tp", 2)}, {});
  Family embd = family(mesh, {"pp"});
  embd.members = {0, 3};
  EXPECT_EQ(mesh.group_size(embd), 2);
  EXPECT_EQ(mesh.group_of(embd, Rank(1)), (std::vector{Rank(1), Rank(7)}));
  EXPECT_TRUE(mesh.group_of(embd, Rank(2)).empty());
}

// Groups of the same ranks: of all that share dense parameters, and of all that share an expert.
TEST(Mesh, AGroupIsNamedByTheAxesThatAreMeant) {
  const auto data = AxisKind::data;
  const auto model = AxisKind::model;
  const Mesh mesh({{"dp", 2, data, {}}, {"cp", 2, data, {}}, {"tp", 2, model, {}}},
                  {{"edp", 4, data, {}}, {"ep", 2, model, {}}});
  const AtomSet shared = mesh.find("edp")->atoms;
  EXPECT_EQ(family_of(mesh, shared, true).name, "edp");
  EXPECT_EQ(family_of(mesh, shared, false).name, "dp-cp");
  EXPECT_EQ(family_of(mesh, mesh.find("tp")->atoms, false).name, "tp");
  EXPECT_EQ(family_of(mesh, mesh.find("tp")->atoms, true).name, "ep");
  EXPECT_EQ(family_of(mesh, mesh.find("dp")->atoms, true).name, "dp");
}

TEST(Mesh, AxesOfSizeOneAreNamedAndHaveNoAtoms) {
  const Mesh mesh({axis("dp", 1), axis("tp", 2)}, {});
  EXPECT_EQ(mesh.world(), 2);
  EXPECT_EQ(mesh.find("dp")->atoms, 0u);
  EXPECT_EQ(groups(mesh, {"dp"}), (Groups{{0}, {1}}));
}

TEST(Mesh, DataAxesOfTheExpertFactorisation) {
  const auto data = AxisKind::data;
  const Mesh own(
      {{"dp", 4, data, {}}, {"tp", 2, AxisKind::model, {}}},
      {{"edp", 2, data, {}}, {"ep", 2, AxisKind::model, {}}, {"tp", 2, AxisKind::model, {}}});
  EXPECT_EQ(own.expert_data_atoms(), own.find("edp")->atoms);
  const Mesh shared({{"dp", 2, data, {}}, {"tp", 2, AxisKind::model, {}}},
                    {{"dp", 2, data, {}}, {"ep", 2, AxisKind::model, {}}});
  EXPECT_EQ(shared.expert_data_atoms(), shared.find("dp")->atoms);
  EXPECT_EQ(Mesh({{"dp", 2, data, {}}}, {}).expert_data_atoms(), 0u);
}

}  // namespace
}  // namespace s2t
