// Pictures of the graph and of the groups, from models as a user has them.
#include "analyzer/report/diagram.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "analyzer/analyze.h"
#include "analyzer/io/model_json.h"
#include "analyzer/report/dot.h"
#include "analyzer/report/grid.h"
#include "tests/golden/golden.h"

namespace s2t {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Program program_of(const std::string& model) {
  return analyze(load_model(std::string(S2T_SOURCE_DIR) + "/models/" + model + ".json"));
}

std::string printed(std::string_view command, std::string_view format, const Program& program,
                    const ReportOptions& options = {}) {
  std::ostringstream out;
  find_report(command, format).write(program, options, out);
  return out.str();
}

size_t count(const Diagram& diagram, BoxKind kind, bool pruned = false) {
  size_t n = 0;
  for (const Box& b : diagram.boxes) n += b.kind == kind && b.pruned == pruned;
  return n;
}

TEST(GoldenPictures, OfTwoByTwoRanks) {
  const Program program = program_of("tp_ar_b128");
  for (const char* format : {"dot", "mermaid"}) {
    testing::expect_golden(std::string("pictures/groups_tp_ar_b128.") + format,
                           printed("groups", format, program));
    testing::expect_golden(std::string("pictures/render_tp_ar_b128.") + format,
                           printed("render", format, program));
  }
}

TEST(GoldenPictures, OfAPipelineWithPruning) {
  const Program program = program_of("tp_pp_dp_8ranks");
  testing::expect_golden("pictures/render_tp_pp_dp_8ranks.dot", printed("render", "dot", program));
}

TEST(Diagram, EveryCollectiveOfTheStepIsABox) {
  const Diagram d = draw_program(program_of("tp_ar_b128"), {});
  EXPECT_EQ(count(d, BoxKind::forward), 1u);
  EXPECT_EQ(count(d, BoxKind::backward), 1u);
  EXPECT_EQ(count(d, BoxKind::grad_sync), 2u);
}

TEST(Diagram, PrunedCollectivesAreMarkedAndSayWhy) {
  const Diagram d = draw_program(program_of("tp_pp_dp_8ranks"), {});
  ASSERT_EQ(count(d, BoxKind::backward, true), 1u);
  for (const Box& b : d.boxes)
    if (b.pruned) {
      EXPECT_EQ(b.lines.back(), "x does not require grad");
    }
}

// Layers that differ in nothing but this are drawn once, and then with all their reasons.
TEST(Diagram, EveryReasonOfEveryPrunedCollectiveIsTold) {
  for (const char* model : {"freeze_pp_stage0", "freeze_all_but_head"}) {
    const Program program = program_of(model);
    const Diagram d = draw_program(program, {});
    std::string tooltips;
    for (const Box& b : d.boxes) tooltips += b.tooltip + "\n";
    ASSERT_FALSE(program.pruned.empty());
    for (const Pruned& p : program.pruned) EXPECT_THAT(tooltips, HasSubstr(p.because)) << model;
  }
  const Diagram d = draw_program(program_of("freeze_pp_stage0"), {});
  for (const Box& b : d.boxes)
    if (b.pruned) {
      EXPECT_THAT(b.lines, ::testing::IsSupersetOf(
                               {"for 2 reasons, not all the same:", "x does not require grad",
                                "x, w1_0 and 3 more leaves do not require grad"}));
    }
}

TEST(Diagram, NoNameTurnsTheDirectionOfAReason) {
  Program program = program_of("tp_pp_dp_8ranks");
  ASSERT_FALSE(program.pruned.empty());
  for (Pruned& p : program.pruned) p.because = "a\u202Eb does not require grad";
  for (const char* format : {"dot", "mermaid"}) {
    const std::string text = printed("render", format, program);
    EXPECT_THAT(text, ::testing::Not(HasSubstr("label=\"pruned\u202E"))) << format;
    EXPECT_THAT(text, HasSubstr("u202eb does not require grad")) << format;
  }
}

TEST(Diagram, NoNameIsTooLongForGraphviz) {
  Program program = program_of("tp_ar_b128");
  for (PictureValue& v : program.picture.values) v.name = std::string(20'000, '&');
  const std::string text = printed("render", "dot", program);
  size_t longest = 0, start = 0;
  for (size_t end = 0; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
    longest = std::max(longest, end - start);
  EXPECT_LT(longest, 16'384u);
  EXPECT_THAT(text, HasSubstr("\u2026"));
}

TEST(Diagram, AlikeLayersAreDrawnOnceWithACount) {
  const Diagram d = draw_program(program_of("tp_pp_dp_8ranks"), {});
  std::vector<std::string> titles;
  for (const Frame& f : d.frames) titles.push_back(f.title);
  EXPECT_THAT(titles, ::testing::ElementsAre("stage 0", "stage 1", "layers 2 to 3: 2 alike"));
}

// A pipeline with so many layers, each one linear, on each stage; gradients go in one bucket.
Program pipeline_of(const std::vector<int>& layers) {
  std::string tensors = R"("x": {"shape": ["batch", 8]})", ops, value = "x";
  int made = 0;
  for (size_t stage = 0; stage < layers.size(); ++stage)
    for (int i = 0; i < layers[stage]; ++i, ++made) {
      tensors += fmt::format(R"(, "w{}": {{"shape": [8, 8], "parameter": true}})", made);
      ops += fmt::format(
          R"({{"op": "linear", "inputs": ["{}", "w{}"], "output": "h{}", "stage": {}}}, )", value,
          made, made, stage);
      value = "h" + std::to_string(made);
    }
  return analyze(parse_model(fmt::format(
      R"({{"schema": "shape2trace.model/1", "name": "uneven", "microbatches": 4,
          "mesh": {{"axes": [{{"name": "pp", "size": {0}, "kind": "pipeline"}},
                             {{"name": "dp", "size": 2, "kind": "data"}}]}},
          "batch": {{"local": 4, "axes": ["dp"]}}, "tensors": {{{1}}},
          "ops": [{2} {{"op": "mean_square", "inputs": ["{3}"], "output": "loss", "stage": {4}}}],
          "loss": "loss", "pipeline": {{"axis": "pp", "schedule": "1f1b", "p2p": "batched"}},
          "gradient_sync": {{"kind": "bucketed", "axes": ["dp"], "reduce": "mean"}}}})",
      layers.size(), tensors, ops, value, layers.size() - 1)));
}

TEST(Diagram, StagesThatDifferInTheirNumberOfLayersAreDrawnOnce) {
  const Diagram d = draw_program(pipeline_of({3, 4, 7, 5, 6, 3}), {});
  std::vector<std::string> titles;
  for (const Frame& f : d.frames) titles.push_back(f.title);
  EXPECT_THAT(titles,
              ::testing::ElementsAre("stage 0", "layers 0 to 2: 3 alike",
                                     "stages 1-4: 4 alike but for how many layers they have",
                                     "4 to 7 alike", "stage 5", "layers 25 to 27: 3 alike"));
  std::set<std::string> lines;
  for (const Box& b : d.boxes)
    if (b.kind == BoxKind::grad_sync) lines.insert(b.lines.begin(), b.lines.end());
  EXPECT_THAT(lines,
              ::testing::IsSupersetOf({"over dp, 1,024 to 1,792 B", "4 to 7 tensors in all"}));
  for (const Arrow& a : d.arrows) EXPECT_NE(a.from, a.to);
}

TEST(Diagram, StagesThatDifferInMoreAreDrawnEach) {
  const auto frames = [](const std::vector<int>& layers) {
    return draw_program(pipeline_of(layers), {}).frames.size();
  };
  EXPECT_EQ(frames({3, 4, 4, 3}), 6u);
  EXPECT_EQ(frames({3, 4, 1, 3}), 7u);  // one layer repeats nothing
}

TEST(Diagram, ValuesRunStraightDownAndGatheredParametersComeFromTheSide) {
  const std::string text = printed("render", "dot", program_of("fsdp_mlp"));
  EXPECT_THAT(text, HasSubstr("h: 32 x 32\\n\u00a0\u00a0dp:S(0)\", style=solid, class=\"value\", "
                              "weight=8]"));
  EXPECT_THAT(text, HasSubstr("\u00a0\u00a0w1\", style=solid, class=\"value\"]"));
}

TEST(Diagram, OneLayerHasAFrameInTheSingular) {
  Program program = program_of("tp_mlp");
  for (PictureOp& op : program.picture.ops) op.module = "layers.7.mlp";
  const Diagram d = draw_program(program, {});
  ASSERT_EQ(d.frames.size(), 1u);
  EXPECT_EQ(d.frames[0].title, "layer 7");
}

TEST(Diagram, ArrowsAndFramesPointToWhatIsThere) {
  for (const char* model : {"tp_pp_dp_8ranks", "layer_megatron_sp", "fsdp_mlp", "ep_skewed",
                            "interleaved_p4_v2_m8", "tied_embedding"}) {
    const Diagram d = draw_program(program_of(model), {});
    for (const Arrow& a : d.arrows) {
      EXPECT_LT(a.from, d.boxes.size()) << model;
      EXPECT_LT(a.to, d.boxes.size()) << model;
    }
    for (size_t f = 0; f < d.frames.size(); ++f)
      EXPECT_LT(d.frames[f].parent, static_cast<int>(f)) << model;
    for (const Box& b : d.boxes) EXPECT_LT(b.frame, static_cast<int>(d.frames.size())) << model;
  }
}

TEST(Diagram, FiltersLeaveOutCollectives) {
  const Program program = program_of("tp_ar_b128");
  ReportOptions options;
  options.phase = "forward";
  EXPECT_EQ(count(draw_program(program, options), BoxKind::backward), 0u);
  EXPECT_EQ(count(draw_program(program, options), BoxKind::forward), 1u);
  options = {};
  options.axis = "dp";
  EXPECT_EQ(count(draw_program(program, options), BoxKind::forward), 0u);
  EXPECT_EQ(count(draw_program(program, options), BoxKind::grad_sync), 2u);
}

TEST(Diagram, FiltersThatLeaveNothingSaySo) {
  ReportOptions options;
  options.phase = "backward";
  options.axis = "dp";
  EXPECT_EQ(draw_program(program_of("tp_ar_b128"), options).shown,
            "only backward collectives over dp: there are none");
  options.axis = "tp";
  EXPECT_EQ(draw_program(program_of("tp_ar_b128"), options).shown,
            "only backward collectives over tp");
}

TEST(Diagram, AMessageOfARingIsOneBoxWithItsReceive) {
  const Diagram d = draw_program(program_of("cp_ring"), {});
  size_t messages = 0;
  for (const Box& b : d.boxes) {
    if (b.kind == BoxKind::op || b.kind == BoxKind::leaf || b.lines.size() < 2) continue;
    messages += b.lines[0].find("send, recv") != std::string::npos;
    EXPECT_EQ(b.lines[1].find(" 0 B"), std::string::npos) << b.lines[1];
  }
  EXPECT_GT(messages, 0u);
}

TEST(Diagram, WhatTheProgramDoesNotHaveIsAUserError) {
  const Program program = program_of("tp_ar_b128");
  ReportOptions phase, axis, layers, rank;
  phase.phase = "backwards";
  axis.axis = "tq";
  layers.layers = "1-x";
  rank.rank = Rank(4);
  for (const ReportOptions& options : {phase, axis, layers, rank})
    EXPECT_THROW(draw_program(program, options), UserError);
}

TEST(Diagram, TooManyBoxesAreRefusedOnlyWhereALimitIsSet) {
  const Program program = program_of("tp_ar_b128");
  ReportOptions options;
  options.most_boxes = 3;
  EXPECT_THROW(draw_program(program, options), TooMuchToDraw);
}

TEST(Escapes, DotKeepsEveryCharacter) {
  EXPECT_EQ(dot_string("a \"b\" \\ <c> &\nd"), R"("a \"b\" \\ <c> &amp;\nd")");
}

TEST(Escapes, WhatNoXmlMayHoldIsWrittenOut) {
  EXPECT_EQ(dot_string("a\uFFFE\uFFFF b\uFFFD"), "\"a\\\\ufffe\\\\uffff b\uFFFD\"");
  EXPECT_EQ(mermaid_string("a\uFFFE"), "\"a#92;ufffe\"");
}

TEST(Escapes, CappedTextEndsBetweenCharacters) {
  EXPECT_EQ(capped("short"), "short");
  std::string most;
  for (int i = 0; i < 1000; ++i) most += "\u00e9";
  EXPECT_EQ(capped(most), most);
  EXPECT_EQ(capped(most + "e"), most + "\u2026");
}

TEST(Escapes, MermaidHasNoReservedCharacterInAString) {
  EXPECT_EQ(mermaid_string("a \"b\" <c>\nd"), "\"a #34;b#34; #60;c#62;<br/>d\"");
}

TEST(Grid, TheRankAskedForAndItsGroupsAreMarkedInEveryLanguage) {
  ReportOptions options;
  options.rank = Rank(3);
  const Program program = program_of("tp_ar_b128");
  const std::string dot = printed("groups", "dot", program, options);
  EXPECT_THAT(dot, HasSubstr("g0r3 [label=\"rank 3\\ndp 1 tp 1\", style=\"rounded,filled\""));
  EXPECT_THAT(dot, Not(HasSubstr("g0r0 [label=\"rank 0\\ndp 0 tp 0\", style")));
  size_t own = 0;
  for (size_t at = dot.find("penwidth=7"); at != std::string::npos;
       at = dot.find("penwidth=7", at + 1))
    ++own;
  EXPECT_EQ(own, 2u);  // of its tp and of its dp group
  const std::string mermaid = printed("groups", "mermaid", program, options);
  EXPECT_THAT(mermaid, HasSubstr("style g0r3 fill:"));
  EXPECT_THAT(mermaid, HasSubstr("stroke-width:7px"));
  EXPECT_THAT(printed("groups", "mermaid", program), Not(HasSubstr("stroke-width:7px")));
}

TEST(Grid, LargeWorldsShowTheFirstAndTheLast) {
  EXPECT_THAT(shown_coordinates(128, 4), ::testing::ElementsAre(0, 1, 127));
  EXPECT_THAT(shown_coordinates(3, 4), ::testing::ElementsAre(0, 1, 2));
}

TEST(Grid, ARankOfALargeWorldIsMarkedOrItsPlaceIsTold) {
  const Program program = analyze(parse_model(
      R"({"schema": "shape2trace.model/1", "name": "large", "convention": "global",
          "mesh": {"axes": [{"name": "pp", "size": 4}, {"name": "dp", "size": 512},
                            {"name": "tp", "size": 8}]},
          "tensors": {"x": {"shape": [8, 8]}},
          "ops": [{"op": "mean_square", "inputs": ["x"], "output": "loss"}], "loss": "loss"})"));
  const auto groups = [&](int32_t rank) {
    ReportOptions options;
    options.rank = Rank(rank);
    return printed("groups", "svg", program, options);
  };
  EXPECT_THAT(groups(5000),
              HasSubstr("rank 5000: pp 1 dp 113 tp 0, in the marked block \u201cranks 4096-8191"));
  EXPECT_THAT(groups(5000), HasSubstr("<rect class=\"here\""));
  EXPECT_THAT(groups(1), HasSubstr("rank 1: pp 0 dp 0 tp 1<"));
  EXPECT_THAT(groups(1), HasSubstr("<rect class=\"here\""));
  EXPECT_THAT(groups(800), HasSubstr("rank 800: pp 0 dp 100 tp 0, among the ranks that \u22ef"));
  EXPECT_THAT(groups(800), ::testing::Not(HasSubstr("<rect class=\"here\"")));
}

TEST(Grid, TheExpertAxesHaveAPictureOfTheirOwn) {
  EXPECT_THAT(printed("groups", "svg", program_of("moe_folded_ep")), HasSubstr("experts: "));
}

TEST(Page, NoNameEndsTheScript) {
  Program program = program_of("tp_ar_b128");
  program.stages[0].forward.items[0].event.tensor = "</script><b>";
  const std::string page = printed("render", "html", program);
  EXPECT_THAT(page, HasSubstr("\\u003c/script>\\u003cb>"));
}

}  // namespace
}  // namespace s2t
