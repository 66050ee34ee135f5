#include "analyzer/report/report.h"

#include <gmock/gmock.h>

#include <sstream>

#include "analyzer/program/tally.h"
#include "analyzer/report/byte_formula.h"
#include "analyzer/report/table.h"
#include "analyzer/report/words.h"
#include "tests/analyzer/program/sample_programs.h"

namespace s2t {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string print(const Program& program, const std::string& command, const std::string& format,
                  const ReportOptions& options = {}) {
  std::ostringstream out;
  find_report(command, format).write(program, options, out);
  return out.str();
}

std::string message(const std::function<void()>& act) {
  try {
    act();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Reports, AnUnknownFormatIsAnErrorThatNamesTheOthers) {
  EXPECT_EQ(message([] { find_report("predict", "jsn"); }),
            "shape2trace: --format: unknown format \"jsn\"; expected one of \"text\", \"json\", "
            "\"csv\", \"chakra\", \"aicb\". Did you mean \"json\"? [unknown-format]");
}

TEST(Reports, AnUnknownRankIsAnError) {
  ReportOptions options;
  options.rank = Rank(4);
  for (const std::string command : {"predict", "groups"})
    EXPECT_EQ(message([&] { print(tensor_parallel_program(), command, "text", options); }),
              "shape2trace: --rank: no rank 4; expected 0 to 3. [out-of-range]");
}

TEST(Reports, WhatIsPrunedIsChosenAsEventsAre) {
  Program p = pipeline_program();
  p.causes.push_back({});
  for (const int64_t stage : {0, 1}) {
    Event e = sample::event(Phase::backward, Collective::all_reduce, 1, "x.grad", "fc", {8, 8}, 2);
    e.node = stage == 0 ? "embed" : "fc";
    e.ranks = sample::along(p.mesh, "pp", stage);
    p.pruned.push_back({"only_" + std::to_string(stage), e, "x does not require grad"});
  }
  ReportOptions stage, module, rank;
  stage.stage = 1;
  module.module = "fc";
  rank.rank = Rank(1);
  for (const std::string format : {"text", "json"}) {
    EXPECT_THAT(print(p, "predict", format), AllOf(HasSubstr("only_0"), HasSubstr("only_1")));
    for (const ReportOptions& only : {stage, module, rank})
      EXPECT_THAT(print(p, "predict", format, only),
                  AllOf(Not(HasSubstr("only_0")), HasSubstr("only_1")));
  }
  p.pruned.pop_back();
  EXPECT_THAT(print(p, "predict", "text", stage), Not(HasSubstr("Pruned")));
}

TEST(Reports, AModuleOfAnotherStageIsAnErrorThatNamesItsOwn) {
  Program p = pipeline_program();
  Event e = sample::event(Phase::forward, Collective::all_reduce, 1, "y", "fc2", {8, 8}, 2);
  e.ranks = sample::along(p.mesh, "pp", 1);
  p.stages[1].forward.items.push_back({e});
  ReportOptions options;
  options.module = "fc2";
  options.stage = 0;
  EXPECT_EQ(message([&] { print(p, "predict", "text", options); }),
            "shape2trace: --module: \"fc2\" is on stage 1, but --stage is 0; expected a module of "
            "stage 0, or stage 1. [contradiction]");
  options.stage.reset();
  options.rank = Rank(2);  // whoever asks rank by rank gets an answer of nothing
  EXPECT_THAT(print(p, "predict", "json", options), HasSubstr("\"events\": []"));
  options.rank = Rank(3);
  EXPECT_THAT(print(p, "predict", "text", options), HasSubstr("fc2"));
}

TEST(Reports, AModuleThatIsNoneIsLikenedToPartsOfNames) {
  Program p = tensor_parallel_program();
  for (const char* module : {"layers.3.attn", "layers.3.mlp"}) {
    p.picture.ops.emplace_back();
    p.picture.ops.back().module = module;
  }
  ReportOptions options;
  options.module = "layerz.3";
  EXPECT_THAT(message([&] { print(p, "predict", "text", options); }),
              HasSubstr("Did you mean \"layers.3\"?"));
}

TEST(Reports, AnAxisWithoutStrideNeedsNoFormula) {
  Program p = tensor_parallel_program();
  p.mesh = Mesh({{"dp", 1, AxisKind::data, {}}}, {});
  p.families = {};
  EXPECT_THAT(print(p, "groups", "text"), HasSubstr("\n  dp 1\n"));
}

size_t occurrences(const std::string& text, const std::string& of) {
  size_t n = 0;
  for (size_t at = text.find(of); at != std::string::npos; at = text.find(of, at + 1)) ++n;
  return n;
}

TEST(Reports, GroupsOfARankAreThickAndTheirOtherMembersTinted) {
  ReportOptions options;
  const std::string all = print(tensor_parallel_program(), "groups", "svg", options);
  EXPECT_EQ(occurrences(all, "class=\"peer\"") + occurrences(all, "stroke-width=\"10\""), 0u);
  options.rank = Rank(2);
  const std::string one = print(tensor_parallel_program(), "groups", "svg", options);
  EXPECT_EQ(occurrences(one, "class=\"here\""), 1u);
  EXPECT_EQ(occurrences(one, "class=\"peer\""), 2u);       // 3 over tp, 0 over dp
  EXPECT_EQ(occurrences(one, "stroke-width=\"10\""), 2u);  // of four bars
  EXPECT_THAT(one, HasSubstr("thick: the groups of rank 2 along each axis"));
}

TEST(Reports, ALongListingIsShownOnRequestOnly) {
  const Program p = pipeline_program(4, 40);
  EXPECT_THAT(print(p, "predict", "text"), HasSubstr("322 events are not listed"));
  ReportOptions options;
  options.expand = true;
  const std::string all = print(p, "predict", "text", options);
  EXPECT_THAT(all, HasSubstr("\n  321 grad_sync"));
  EXPECT_THAT(all, Not(HasSubstr("not listed")));
}

TEST(Reports, ColourComesOnRequestOnly) {
  ReportOptions options;
  EXPECT_THAT(print(tensor_parallel_program(), "predict", "text"), Not(HasSubstr("\x1b")));
  options.color = true;
  EXPECT_THAT(print(tensor_parallel_program(), "predict", "text", options),
              HasSubstr("\x1b[1mSummary\x1b[0m"));
}

TEST(Reports, ANameWithControlCharactersStaysOnItsLine) {
  Program p = tensor_parallel_program();
  p.model = "a\nb\x1b[31m";
  p.stages[0].forward.items[0].event.tensor = "x\ny\x1b";
  const std::string text = print(p, "predict", "text");
  EXPECT_THAT(text, HasSubstr("a\\nb\\u001b[31m: 4 ranks"));
  EXPECT_THAT(text, HasSubstr("x\\ny\\u001b"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(Reports, CsvQuotesWhatWouldBreakALine) {
  Program p = tensor_parallel_program();
  p.stages[0].forward.items[0].event.tensor = "a,\"b\"\nc";
  EXPECT_THAT(print(p, "predict", "csv"), HasSubstr(",\"a,\"\"b\"\"\nc\","));
}

TEST(Reports, TotalsTooLongForAColumnAreMegabytes) {
  Program p = tensor_parallel_program();
  p.after[0].volume.input_bytes = 12'345'678'950'000;
  const std::string text = print(p, "predict", "text");
  EXPECT_THAT(text, HasSubstr("input MB"));
  EXPECT_THAT(text, HasSubstr("12,345,680.0"));  // and 1,048,576 B of w2
}

TEST(ByteFormula, AFormulaThatDoesNotGiveTheBytesIsOurFault) {
  Program p = tensor_parallel_program();
  Event e = p.stages[0].forward.items[0].event;
  e.volume.wire_bytes += 1;
  EXPECT_THROW(byte_lines(p, e), Fault);
}

TEST(ByteFormula, EveryCollectiveHasOneThatGivesItsBytes) {
  const Program p = tensor_parallel_program();
  for (const CollectiveDef& def : collectives()) {
    Event e = p.stages[0].forward.items[0].event;
    e.op = def.op;
    e.volume = volume(def.op, 1001, 4, 2);
    EXPECT_EQ(byte_lines(p, e).size(), 3u) << def.name;
  }
}

TEST(Table, AlignsAndLeavesOutEmptyColumns) {
  Table table({{"a"}, {"empty"}, {"number", Column::Kind::right}});
  table.row({"x", "", "1"});
  table.row({"longer", "", "12"});
  std::ostringstream out;
  table.print(out);
  EXPECT_EQ(out.str(), "  a       number\n  x            1\n  longer      12\n");
}

TEST(Table, GivesUpTheMiddleOfLongNamesBeforeNumbers) {
  Table table({{"name", Column::Kind::flexible}, {"n", Column::Kind::right}});
  table.row({std::string(80, 'a') + std::string(80, 'b'), "1,000"});
  std::ostringstream out;
  table.print(out, 2, 30);
  EXPECT_EQ(out.str(), "  name                       n\n  aaaaaaaaaa...bbbbbbbbb 1,000\n");
}

TEST(Table, WrapsTextInTheLastColumn) {
  Table table({{"id"}, {"because", Column::Kind::wrapped}});
  table.row({"p0", "nothing upstream of this value requires grad"});
  std::ostringstream out;
  table.print(out, 2, 32);
  EXPECT_EQ(out.str(), "  id because\n  p0 nothing upstream of this\n     value requires grad\n");
}

TEST(Table, DoesWithoutASpareColumnBeforeItCutsNames) {
  const auto printed = [](size_t width) {
    Table table({{"name", Column::Kind::flexible}, {"shape", Column::Kind::left, true}, {"n"}});
    table.row({"layers.0.attn.norm", "bf16[2048,4096]", "1"});
    std::ostringstream out;
    table.print(out, 2, width);
    return out.str();
  };
  EXPECT_THAT(printed(38), HasSubstr("layers.0.attn.norm bf16[2048,4096] 1\n"));
  EXPECT_EQ(printed(37), "  name                n\n  layers.0.attn.norm  1\n");
}

TEST(Table, BreaksNoListOfRanksThatFitsALine) {
  EXPECT_THAT(wrapped("pp [0,8], all [0,1,2, ... 15]", 20),
              ElementsAre("pp [0,8], all", "[0,1,2, ... 15]"));
  EXPECT_THAT(wrapped("all [0,1,2, ... 15]", 10), ElementsAre("all", "[0,1,2,", "... 15]"));
  EXPECT_THAT(wrapped("an [open bracket", 9), ElementsAre("an [open", "bracket"));
}

TEST(Words, SomeOfManyNumbers) {
  EXPECT_EQ(some_of({0, 1, 2, 5}, 8), "0-2, 5");
  EXPECT_EQ(some_of({4, 8, 12, 16, 215}, 13), "4, 8, ... 215");
  EXPECT_EQ(some_of({4, 8, 12, 16, 215}, 12), "4, ... 215");
  EXPECT_EQ(some_of({1004, 1008, 1012, 1016}, 3), "1004, ... 1016");
}

TEST(Words, RangesOfNumbers) {
  EXPECT_EQ(ranges({0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8");
  EXPECT_EQ(ranges({0, 1, 2}, 3), "all");
  EXPECT_EQ(ranges({0}, 1), "0");
}

TEST(Words, SharedAxesBelongToBothFactorisations) {
  const Mesh mesh({{"pp", 2, AxisKind::pipeline, {}},
                   {"dp", 4, AxisKind::data, {}},
                   {"tp", 2, AxisKind::model, {}}},
                  {{"pp", 2, AxisKind::pipeline, {}},
                   {"edp", 2, AxisKind::data, {}},
                   {"ep", 4, AxisKind::data, {}}});
  std::vector<std::string> names;
  for (const Axis& axis : expert_axes(mesh)) names.push_back(axis.name);
  EXPECT_THAT(names, ElementsAre("pp", "edp", "ep"));
}

}  // namespace
}  // namespace s2t
