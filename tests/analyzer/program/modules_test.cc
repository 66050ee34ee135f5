#include "analyzer/program/modules.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "analyzer/program/listing.h"
#include "analyzer/program/tally.h"
#include "tests/analyzer/program/sample_programs.h"

namespace s2t {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// `layers` layers over tp 2 on two stages of a pipeline, each with two all-gathers and a
// reduce-scatter; the last one reduces instead if it is `odd`.
Program layered_program(int64_t layers, bool odd = false) {
  Program p;
  p.model = "layers";
  p.mesh = Mesh({{"pp", 2, AxisKind::pipeline, {}}, {"tp", 2, AxisKind::model, {}}}, {});
  p.families = {p.mesh.family_of(p.mesh.find("tp")->atoms),
                p.mesh.family_of(p.mesh.find("pp")->atoms)};
  p.causes = {Cause{}};
  p.pipeline_axis = "pp";
  p.pipeline_ranks = 2;
  p.microbatches = 3;
  p.stages.resize(2);
  for (int64_t l = 0; l < layers; ++l) {
    const int64_t s = l * 2 / layers;
    const bool reduces = odd && l == layers - 1;
    for (const auto& [part, op] :
         {std::pair{"attn", Collective::all_gather}, std::pair{"attn", Collective::reduce_scatter},
          std::pair{"mlp", reduces ? Collective::all_reduce : Collective::all_gather}}) {
      Event e = sample::event(Phase::forward, op, 0, "x", "op", {8, 8}, 2);
      e.module = fmt::format("layers.{}.{}", l, part);
      e.stage = s;
      e.ranks = sample::along(p.mesh, "pp", s);
      p.stages[static_cast<size_t>(s)].forward.items.push_back({e});
    }
  }
  Event message = sample::event(Phase::forward, Collective::send, 1, "x", "op", {8, 8}, 2);
  message.stage = 0;
  message.ranks = sample::along(p.mesh, "pp", 0);
  p.stages[0].send_activation = {message};
  for (int32_t m = 0; m < 3; ++m) {
    p.order.push_back({SpanKind::forward, 0, m, -1, 0, -1});
    p.order.push_back({SpanKind::send_activation, 0, m, m, 0, 1});
    p.order.push_back({SpanKind::forward, 1, m, -1, 1, -1});
  }
  return p;
}

std::string line(const ModuleRow& row) {
  std::string text = row.stem;
  for (const int64_t n : row.numbers) text += fmt::format(" {}", n);
  text += fmt::format(" x{} on", row.times);
  for (const int64_t s : row.stages) text += fmt::format(" {}", s);
  for (const ModuleCalls& c : row.calls) text += fmt::format(", {} {}", c.calls, info(c.op).brief);
  return text;
}

std::vector<std::string> lines(const Program& p, const Selection& selection = {}) {
  std::vector<std::string> list;
  for (const ModuleRow& row : module_rows(p, selection)) list.push_back(line(row));
  return list;
}

TEST(ModuleRows, AlikeLayersOfAllStagesAreOneRowWithACountPerLayer) {
  EXPECT_THAT(lines(layered_program(4)),
              ElementsAre("layers 0 1 2 3 x3 on 0 1, 2 AG, 1 RS", "pipeline x3 on 0, 1 send"));
}

TEST(ModuleRows, ALayerThatDoesSomethingElseHasARowOfItsOwn) {
  EXPECT_THAT(lines(layered_program(4, true)),
              ElementsAre("layers 0 1 2 x3 on 0 1, 2 AG, 1 RS",
                          "layers 3 x3 on 1, 1 AG, 1 RS, 1 AR", "pipeline x3 on 0, 1 send"));
}

TEST(ModuleRows, TheNumberOfRowsDoesNotGrowWithTheLayers) {
  EXPECT_EQ(module_rows(layered_program(400)).size(), module_rows(layered_program(4)).size());
}

TEST(ModuleRows, AreThoseOfTheSelection) {
  const Program p = layered_program(4);
  EXPECT_THAT(lines(p, {{}, 1, ""}), ElementsAre("layers 2 3 x3 on 1, 2 AG, 1 RS"));
  EXPECT_THAT(lines(p, {{}, {}, "mlp"}), ElementsAre("layers 0 1 2 3 x3 on 0 1, 1 AG"));
  EXPECT_THAT(lines(p, {Rank(3), {}, "layers.1"}), IsEmpty());
}

TEST(ModuleRows, ACallWhoseNumbersDifferByRankIsOneCallWithItsExtremes) {
  Program p = expert_program();
  p.stages[0].forward.items[1].event.volume.input_bytes = 7;
  const auto rows = module_rows(p);
  ASSERT_EQ(rows.size(), 1u);
  ASSERT_EQ(rows[0].calls.size(), 1u);
  EXPECT_EQ(rows[0].calls[0].calls, 1u);
  EXPECT_EQ(rows[0].calls[0].least.input_bytes, 7u);
  EXPECT_EQ(rows[0].calls[0].most.input_bytes, 131072u);
}

// The short form and the whole listing say the same.
TEST(ModuleRows, CountAsManyCallsAsTheListingOfARank) {
  const Program p = layered_program(6, true);
  for (const int rank : {0, 3}) {
    Count calls = 0;
    for (const ModuleRow& row : module_rows(p, {Rank(rank), {}, ""}))
      for (const ModuleCalls& c : row.calls)
        calls += c.calls * row.times * std::max<size_t>(1, row.numbers.size());
    EXPECT_EQ(calls, events_of(p, Rank(rank)).size()) << rank;
  }
}

TEST(Selected, EventsAreCountedAsTheyAreListed) {
  const Program p = layered_program(4);
  for (const Selection& s : {Selection{},
                             {Rank(1), {}, ""},
                             {{}, 1, ""},
                             {{}, {}, "attn"},
                             {{}, 0, "pipeline"},
                             {Rank(2), 0, ""}}) {
    size_t listed = 0;
    for (const Event& e : list_events(p)) listed += selects(s, p, e);
    EXPECT_EQ(count_events(p, s), listed);
  }
}

TEST(Summary, ByOwnerIsInModelOrder) {
  std::vector<std::string> owners;
  for (const SummaryRow& row : summarize(layered_program(2), {}, By::owner))
    owners.push_back(fmt::format("{} {} x{}", row.owner, *row.stage, row.calls));
  EXPECT_THAT(owners,
              ElementsAre("attn 0 x6", "attn 1 x6", "mlp 0 x3", "mlp 1 x3", "pipeline 0 x3"));
}

TEST(Summary, ByFamilyIsTheRankThatMovesMostOverItAndTheWireOfAllRanks) {
  const auto rows = summarize(layered_program(2), {}, By::family);
  ASSERT_EQ(rows.size(), 2u);
  // Of each of 4 ranks, 3 microbatches of one layer: three calls with 256 B for the other rank.
  EXPECT_EQ(rows[0].calls, 9u);
  EXPECT_EQ(rows[0].wire_bytes, 3u * 3 * 256);
  EXPECT_EQ(rows[0].wire_of_all, 4u * rows[0].wire_bytes);
  EXPECT_EQ(rows[1].wire_bytes, 3u * 256);  // only the sends
  EXPECT_EQ(rows[1].wire_of_all, 2u * 3 * 256);
  EXPECT_EQ(rows[1].rank, Rank(0));
}

TEST(Summary, ByFamilyIsTheFirstOfThoseThatMoveMostWhoeverMovesMoreOverOthers) {
  Program p = layered_program(2);
  Event message = p.stages[0].send_activation[0];
  message.stage = 1;
  message.ranks = sample::along(p.mesh, "pp", 1);
  p.stages[1].send_gradient = {message, message};
  for (int32_t m = 0; m < 3; ++m) p.order.push_back({SpanKind::send_gradient, 1, m, m, 1, 0});
  const auto rows = summarize(p, {}, By::family);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].rank, Rank(0));
  EXPECT_EQ(rows[1].rank, Rank(2));
}

TEST(Summary, OfOneStageCountsItsRanksAlone) {
  const Program p = layered_program(2);
  for (const int64_t stage : {0, 1})
    for (const SummaryRow& row : summarize(p, {{}, stage, ""}, By::family)) {
      if (row.calls == 9) {  // those over tp
        EXPECT_EQ(row.wire_of_all, 2u * row.wire_bytes);
      }
      EXPECT_EQ(p.mesh.coordinate(row.rank, p.mesh.find("pp")->atoms), stage);
    }
}

}  // namespace
}  // namespace s2t
