#include "analyzer/program/owner.h"

#include <gtest/gtest.h>

#include "tests/analyzer/program/sample_programs.h"

namespace s2t {
namespace {

Event of_module(const std::string& module, const std::string& node = "op") {
  Event e = sample::event(Phase::forward, Collective::all_reduce, 0, "y", node, {2}, 2);
  e.module = module;
  return e;
}

TEST(Block, IsTheLayerThatAModuleIsIn) {
  EXPECT_EQ(block_of("layers.3.attn"), (Block{"layers", 3}));
  EXPECT_EQ(block_of("layers.12"), (Block{"layers", 12}));
  EXPECT_EQ(block_of("embed"), (Block{"embed", std::nullopt}));
}

TEST(Block, OfAnOpWithoutAModuleIsTheNumberThatEndsAWordOfItsName) {
  EXPECT_EQ(block_of("y12"), (Block{"y", 12}));
  EXPECT_EQ(block_of("l0_wq"), (Block{"l", 0}));
  EXPECT_EQ(block_of("2d"), (Block{"2d", std::nullopt}));
  EXPECT_EQ(block_of("7"), (Block{"7", std::nullopt}));
  EXPECT_EQ(block_of("h99999999999999999999"), (Block{"h99999999999999999999", std::nullopt}));
}

TEST(Block, OfABucketIsTheLayerOrModuleThatAllItsParametersAreIn) {
  Event e = of_module("layers.3.attn");
  e.phase = Phase::grad_sync;
  e.members = {"layers.3.attn.q.weight", "layers.3.mlp.up.weight"};
  EXPECT_EQ(block_of(e), (Block{"layers", 3}));
  e.members.push_back("layers.4.mlp.up.weight");
  EXPECT_EQ(block_of(e), (Block{"optimizer", std::nullopt}));
  e.members = {"head.norm.weight", "head.weight"};
  EXPECT_EQ(block_of(e), (Block{"head", std::nullopt}));
  e.members = {"head.weight", "embed.weight"};
  EXPECT_EQ(block_of(e), (Block{"optimizer", std::nullopt}));
  e.members = {"w", "b"};
  EXPECT_EQ(block_of(e), (Block{"optimizer", std::nullopt}));
}

TEST(Owner, IsThePartOfTheLayerOrTheModuleItself) {
  EXPECT_EQ(owner_of(of_module("layers.3.attn")), "attn");
  EXPECT_EQ(owner_of(of_module("layers.3.moe.shared")), "moe");
  EXPECT_EQ(owner_of(of_module("head")), "head");
  EXPECT_EQ(owner_of(of_module("layers.3")), "layers");
  EXPECT_EQ(owner_of(of_module("", "y12")), "y");
}

TEST(Owner, OfMessagesIsThePipelineAndOfSynchronisationTheOptimizer) {
  Event e = of_module("layers.3.attn");
  e.op = Collective::send;
  EXPECT_EQ(owner_of(e), "pipeline");
  e.op = Collective::all_reduce;
  for (const Phase phase : {Phase::grad_sync, Phase::step}) {
    e.phase = phase;
    EXPECT_EQ(owner_of(e), "optimizer");
  }
}

TEST(Owner, OfGatheredParametersIsTheModuleThatUsesThem) {
  Event e = of_module("layers.3.attn");
  e.op = Collective::all_gather;
  e.phase = Phase::backward;
  EXPECT_EQ(owner_of(e), "attn");
}

TEST(Pattern, KnowsStarsAndQuestionMarks) {
  EXPECT_TRUE(matches("layers.*.attn", "layers.12.attn"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("l?yers.1*", "layers.10"));
  EXPECT_TRUE(matches("*a*b", "aaab"));
  EXPECT_FALSE(matches("layers.*.attn", "layers.12.mlp"));
  EXPECT_FALSE(matches("layers.1", "layers.12"));
  EXPECT_FALSE(matches("", "x"));
}

TEST(Pattern, NamesAModuleWhatItIsPartOfAnOpOrAnOwner) {
  const Event e = of_module("layers.3.attn", "layers.3.attn.proj");
  for (const std::string pattern :
       {"layers.3.attn", "layers.3", "layers", "attn", "layers.*.attn", "layers.3.attn.proj"})
    EXPECT_TRUE(belongs(e, pattern)) << pattern;
  for (const std::string pattern : {"layers.4", "mlp", "layers.3.at", "optimizer"})
    EXPECT_FALSE(belongs(e, pattern)) << pattern;
}

}  // namespace
}  // namespace s2t
