#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sstream>

#include "analyzer/report/answer.h"
#include "analyzer/report/otherwise.h"
#include "analyzer/report/report.h"
#include "tests/analyzer/program/sample_programs.h"

namespace s2t {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Two layers that each gather twice forward and once more backward, twice a step.
Program layered() {
  Program p;
  p.model = "layers";
  p.microbatches = 2;
  p.mesh = Mesh({{"dp", 2, AxisKind::data, {}}, {"tp", 2, AxisKind::model, {}}}, {});
  p.families = {p.mesh.family_of(p.mesh.find("tp")->atoms)};
  p.stages.resize(1);
  const auto add = [&](Segment& segment, Phase phase, CauseKind kind, int layer, std::string part) {
    Event e = sample::event(phase, Collective::all_gather, 0,
                            fmt::format("layers.{}.{}.norm", layer, part), "q", {8, 8}, 2);
    e.module = fmt::format("layers.{}.{}", layer, part);
    e.cause = p.causes.size();
    Cause c;
    c.kind = kind;
    c.why = fmt::format("{} follows layers.{}.mlp", e.tensor, layer - 1);
    p.causes.push_back(c);
    segment.items.push_back({e});
  };
  for (const int layer : {1, 2})
    for (const std::string part : {"attn", "mlp"})
      add(p.stages[0].forward, Phase::forward, CauseKind::forward_conversion, layer, part);
  for (const int layer : {2, 1})
    add(p.stages[0].backward, Phase::backward, CauseKind::regather, layer, "mlp");
  for (int32_t m = 0; m < 2; ++m) {
    p.order.push_back({SpanKind::forward, 0, m});
    p.order.push_back({SpanKind::backward, 0, m});
  }
  return p;
}

std::string explain(const Program& program, std::vector<std::string> words,
                    const OtherSettings& others = {}, const std::string& format = "text") {
  ReportOptions options;
  options.words = std::move(words);
  options.other_settings = others;
  std::ostringstream out;
  find_report("explain", format).write(program, options, out);
  return out.str();
}

std::string message(const Program& program, std::vector<std::string> words) {
  try {
    explain(program, std::move(words));
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

std::vector<int64_t> ids(const Program& program, std::vector<std::string> words) {
  std::vector<int64_t> list;
  for (const Event& e : answer(program, words).events) list.push_back(e.id);
  return list;
}

TEST(Explain, WordsNameAllThatTheyHaveInCommon) {
  const Program p = layered();
  EXPECT_THAT(ids(p, {"layers.1"}), ElementsAre(0, 1, 5));
  EXPECT_THAT(ids(p, {"layers.1", "backward"}), ElementsAre(5));
  EXPECT_THAT(ids(p, {"AllGather", "mlp"}), ElementsAre(1, 3, 4, 5));
  EXPECT_THAT(ids(p, {"all-gathers", "regather"}), ElementsAre(4, 5));
  EXPECT_THAT(ids(p, {"layers.*.attn.norm"}), ElementsAre(0, 2));
  EXPECT_EQ(ids(p, {"tp"}).size(), 6u);
}

TEST(Explain, AnIdIsOneEventOfTheWholeListing) {
  EXPECT_THAT(ids(layered(), {"9"}), ElementsAre(9));  // of the second microbatch
  EXPECT_THAT(explain(layered(), {"9"}), HasSubstr("Event 9: all_gather of layers.2.mlp.norm"));
}

TEST(Explain, CountsPerModuleAndPhase) {
  EXPECT_THAT(explain(layered(), {"layers.1", "all_gather"}),
              HasSubstr("layers 1: 3 all_gather over tp in each of 2 microbatches = 2 forward + 1 "
                        "backward (regather)\n"));
}

TEST(Explain, ANameIsNoTemplateOfItsLine) {
  Program p = layered();
  for (Segment::Item& item : p.stages[0].forward.items) item.event.module = "a{}b";
  EXPECT_THAT(explain(p, {"forward"}),
              HasSubstr("  a{}b: 4 all_gather over tp in each of 2 microbatches = 4 forward\n"));
}

TEST(Explain, AlikeLayersAreToldOnce) {
  const std::string text = explain(layered(), {"all_gather"});
  EXPECT_THAT(text, HasSubstr("layers 1-2: 3 all_gather over tp"));
  EXPECT_THAT(text, HasSubstr("layers.N.attn.norm follows"));
  EXPECT_THAT(text, HasSubstr("layers.N-1.mlp"));
  EXPECT_THAT(text, Not(HasSubstr("layers.1")));
}

TEST(Explain, WhatWordsNarrowToOneIsTheWholeStory) {
  EXPECT_THAT(explain(layered(), {"layers.1.mlp", "regather"}),
              testing::AllOf(HasSubstr("Event 5: all_gather"), HasSubstr("2 times per step"),
                             HasSubstr("Bytes (one rank")));
}

TEST(Explain, AnUnknownWordIsAnErrorThatNamesWhatThereIs) {
  EXPECT_EQ(message(tensor_parallel_program(), {"4"}),
            "shape2trace: explain: no event \"4\"; expected 0 to 3, or of those pruned p0. "
            "[unknown-event]");
  EXPECT_EQ(message(tensor_parallel_program(), {"z"}),
            "shape2trace: explain: no event \"z\"; expected 0 to 3, or of those pruned p0, or a "
            "module, tensor, group, phase or kind: \"fc2\", \"fc\", \"all_reduce\", \"tp\", "
            "\"forward\", \"forward_conversion\" and 15 more. [unknown-event]");
  EXPECT_THAT(message(layered(), {"layers.1", "all_gathr"}),
              HasSubstr("Did you mean \"all_gather\"? [unknown-event]"));
  EXPECT_THAT(message(layered(), {"layer.1"}), HasSubstr("Did you mean \"layers.1\"?"));
}

TEST(Explain, AnIdStandsAlone) {
  EXPECT_EQ(
      message(layered(), {"3", "4"}),
      "shape2trace: explain: an id, \"3\", among other words; expected an id alone, or words. "
      "[unknown-event]");
}

TEST(Explain, WordsWithNothingInCommonAreAnError) {
  EXPECT_EQ(message(layered(), {"attn", "regather"}),
            "shape2trace: explain: no event is all of \"attn\", \"regather\"; expected of "
            "\"attn\": \"all_gather\". [unknown-event]");
}

TEST(Explain, PrunedCollectivesAnswerToTheirNames) {
  EXPECT_THAT(explain(tensor_parallel_program(), {"x.grad", "tp"}), HasSubstr("p0 was pruned"));
}

// Without the gathers of the backward.
OtherSettings kept() {
  return [](const auto& visit) {
    Program other = layered();
    other.stages[0].backward.items.clear();
    visit({"sequence_residual", "regather", "kept", "gathered again, or kept", "--set"}, other);
    visit({"batch_broadcast", "tp", "none", "handed out, or read", "--set"}, layered());
  };
}

TEST(Explain, NamesTheSwitchesThatChangeTheAnswer) {
  const std::string text = explain(layered(), {"layers.1", "all_gather"}, kept());
  EXPECT_THAT(text,
              HasSubstr("sequence_residual  regather  kept       2 all_gather over tp, not 3"));
  EXPECT_THAT(text, Not(HasSubstr("batch_broadcast")));
  EXPECT_THAT(explain(layered(), {"5"}, kept()), HasSubstr("none of these"));
  EXPECT_THAT(explain(layered(), {"0"}, kept()), Not(HasSubstr("Switches")));
}

TEST(Explain, JsonHasTheCountsTheEventsAndTheSwitches) {
  const std::string text = explain(layered(), {"layers.1"}, kept(), "json");
  EXPECT_THAT(text, HasSubstr("{\"module\": \"layers\", \"numbers\": [1], \"phase\": \"backward\", "
                              "\"op\": \"all_gather\", \"family\": \"tp\", \"rule\": \"regather\", "
                              "\"calls\": 1, \"times\": 2}"));
  EXPECT_THAT(text, HasSubstr("{\"switch\": \"sequence_residual\", \"value\": \"regather\", "
                              "\"otherwise\": \"kept\", \"resized\": false, \"calls\": [{\"op\": "
                              "\"all_gather\", \"family\": \"tp\", \"calls\": 2}]}"));
}

}  // namespace
}  // namespace s2t
