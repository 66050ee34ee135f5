#include "analyzer/report/rank_trace.h"

#include <gmock/gmock.h>

#include <map>

#include "analyzer/report/protobuf.h"
#include "tests/analyzer/program/sample_programs.h"

namespace s2t {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

std::vector<int> numbers(const std::vector<Rank>& ranks) {
  std::vector<int> list;
  for (const Rank r : ranks) list.push_back(r.value);
  return list;
}

// The worked examples of protobuf.dev, "Encoding".
TEST(Protobuf, WritesVarintsAndLengthsAsPublished) {
  ProtobufMessage a, b, c;
  a.number(1, 150);
  EXPECT_EQ(a.bytes(), "\x08\x96\x01");
  b.text(2, "testing");
  EXPECT_EQ(b.bytes(), "\x12\x07testing");
  c.message(3, a);
  EXPECT_EQ(c.bytes(), "\x1a\x03\x08\x96\x01");
  EXPECT_EQ(c.delimited(), "\x05\x1a\x03\x08\x96\x01");
}

TEST(Protobuf, PacksRepeatedNumbers) {
  ProtobufMessage m;
  m.packed(6, {3, 270, 86942});
  EXPECT_EQ(m.bytes(), "\x32\x06\x03\x8e\x02\x9e\xa7\x05");
  m.packed(7, {});
  EXPECT_EQ(m.bytes().size(), 8u);
}

TEST(Protobuf, WritesTheGreatestNumberInTenBytes) {
  ProtobufMessage m;
  m.number(1, UINT64_MAX);
  EXPECT_EQ(m.bytes(), "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST(RankGroups, AreThoseOfTheRankWithTheirMembers) {
  const auto groups = groups_of(pipeline_program(4), Rank(2));
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(numbers(groups[0].ranks), ElementsAre(2, 3));
  EXPECT_THAT(numbers(groups[1].ranks), ElementsAre(0, 2));
  EXPECT_EQ(groups[0].number, 2);  // pp [0,1] [2,3], then dp [0,2] [1,3]
  EXPECT_EQ(groups[1].number, 3);
}

TEST(RankGroups, HaveOneNumberOnAllMembersAndNoOtherGroupHasIt) {
  Program p = pipeline_program(128);
  Family tied = p.families[0];  // a family with only some members, as of tied embeddings
  tied.name = "embd";
  tied.members = {0, 1};
  p.families.push_back(tied);
  std::map<int64_t, std::vector<int>> ranks_of_number;
  for (int r = 0; r < 128; ++r)
    for (const RankGroup& g : groups_of(p, Rank(r))) {
      const auto [at, fresh] = ranks_of_number.try_emplace(g.number, numbers(g.ranks));
      EXPECT_EQ(at->second, numbers(g.ranks)) << g.number;
    }
  EXPECT_EQ(ranks_of_number.size(), 64u + 2 + 64);
  EXPECT_EQ(ranks_of_number.begin()->first, 1);
  EXPECT_EQ(ranks_of_number.rbegin()->first, 64 + 2 + 64);
}

TEST(RankTrace, NamesThePeerByItsGlobalRankInAnyWorld) {
  for (const int64_t world : {4, 128}) {
    const Program p = pipeline_program(world);
    std::vector<int> peers;
    ReportOptions options;
    options.rank = Rank(3);
    for_each_traced(p, options, Rank(3), [&](const Event& e, std::optional<Rank> peer) {
      EXPECT_EQ(peer.has_value(), e.op == Collective::send || e.op == Collective::recv);
      if (peer) peers.push_back(peer->value);
    });
    EXPECT_THAT(peers, UnorderedElementsAre(2, 2, 2, 2)) << world;
  }
}

TEST(RankTrace, AsksForARank) {
  EXPECT_THROW(traced_rank(pipeline_program(), {}, "chakra"), UserError);
  ReportOptions options;
  options.rank = Rank(3);
  EXPECT_EQ(traced_rank(pipeline_program(), options, "chakra"), Rank(3));
}

}  // namespace
}  // namespace s2t
