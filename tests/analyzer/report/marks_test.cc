// No collective of a program is missing from its picture.
#include "analyzer/report/marks.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "analyzer/io/model_json.h"
#include "analyzer/program/owner.h"
#include "analyzer/report/diagram.h"
#include "analyzer/report/folding.h"
#include "tests/analyzer/io/predicted.h"

namespace s2t {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

Program experts() {
  Plan p = plan_of(2, 32, true);
  p.pp = p.ep = 2;
  p.world = 8;
  p.recompute = Recompute::full;
  return predict(mixtral(4), p, {"moe_balancing=aux_loss"});
}

Program sharded_optimizer() {
  Plan p = plan_of(2, 32, true);
  p.pp = 2;
  p.world = 8;
  p.zero = 1;
  return predict(gpt(4, 64, 4), p);
}

Program ringed() {
  Plan p = plan_of(2, 64, true);
  p.cp = 4;
  p.world = 16;
  return predict(gpt(4, 64, 4), p);
}

Program fully_sharded() {
  Plan p = plan_of(2, 64, true);
  p.cp = 2;
  p.world = 8;
  return predict(dense(4, 64, 4), p, profile_of("torchtitan"));
}

std::vector<Program> all_programs() {
  std::vector<Program> all{experts(), sharded_optimizer(), ringed(), fully_sharded()};
  std::set<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(S2T_SOURCE_DIR) + "/models"))
    if (entry.path().extension() == ".json") files.insert(entry.path());
  for (const auto& file : files) all.push_back(analyze(load_model(file.string())));
  return all;
}
const std::vector<Program>& programs() {
  static const std::vector<Program> all = all_programs();
  return all;
}

// Events of one call are one collective; a message is counted where it is sent.
size_t collectives(const Program& program) {
  size_t n = 0;
  std::set<int64_t> calls;
  const auto count = [&](const Event& e) {
    if (!e.ring || e.op == Collective::send) n += e.call < 0 || calls.insert(e.call).second;
  };
  for_each_kept_event(program, count);
  calls.clear();  // a pruned call is another
  for (const Pruned& p : program.pruned) count(p.event);
  for (const Stage& s : program.stages) n += s.send_activation.size() + s.send_gradient.size();
  return n;
}

size_t calls_of(const std::vector<Mark>& marks) {
  size_t n = 0;
  for (const Mark& m : marks) n += m.calls * std::max<size_t>(m.stages.size(), 1);
  return n;
}

TEST(Marks, HoldEveryCollectiveOfTheProgram) {
  for (const Program& program : programs()) {
    const Filter all(program, {});
    const Marks marks = select_marks(program, all);
    size_t n = calls_of(marks.after);
    for (const auto* list : {&marks.at, &marks.buckets, &marks.batch})
      for (const auto& m : *list) n += calls_of(m);
    EXPECT_EQ(n, collectives(program)) << program.model;
  }
}

TEST(Marks, EachOfADrawnOpOrStageIsABox) {
  for (const Program& program : programs()) {
    const Filter all(program, {});
    const Marks marks = select_marks(program, all);
    const Folding folding(program, marks, all.ops());
    std::set<size_t> stages;
    size_t wanted = marks.after.size();
    for (const int32_t o : folding.ops()) {
      if (!folding.drawn(o)) continue;
      wanted += marks.at[static_cast<size_t>(o)].size();
      stages.insert(static_cast<size_t>(program.picture.ops[static_cast<size_t>(o)].stage));
    }
    for (const size_t s : stages) wanted += marks.buckets[s].size() + marks.batch[s].size();
    size_t boxes = 0;
    for (const Box& b : draw_program(program, {}).boxes) boxes += b.kind >= BoxKind::forward;
    EXPECT_EQ(boxes, wanted) << program.model;
  }
}

std::vector<std::string> lines_of(const Diagram& d, const std::string& line) {
  for (const Box& b : d.boxes)
    for (const std::string& l : b.lines)
      if (l == line) return b.lines;
  return {};
}

// "forward all_reduce over tp"
std::set<std::string> drawn_of_layer(const Program& program, int64_t layer) {
  ReportOptions options;
  options.layers = std::to_string(layer);
  std::set<std::string> drawn;
  for (const Box& b : draw_program(program, options).boxes)
    if (b.kind >= BoxKind::forward && !b.pruned)
      drawn.insert(b.lines[0] + " " + b.lines[1].substr(0, b.lines[1].find(',')));
  return drawn;
}
std::set<std::string> listed_of_layer(const Program& program, int64_t layer) {
  std::set<std::string> parameters;
  for (const PictureOp& op : program.picture.ops)
    for (const int32_t v : op.inputs)
      if (const PictureValue& read = program.picture.values[static_cast<size_t>(v)];
          read.parameter && layer_of(op) == layer)
        parameters.insert(read.name);
  const auto is_read = [&](const std::string& name) { return parameters.contains(name); };
  std::set<std::string> listed;
  for_each_kept_event(program, [&](const Event& e) {
    const bool message = e.op == Collective::send || e.op == Collective::recv;
    if (belongs(e, fmt::format("layers.{}", layer)) ||
        std::any_of(e.members.begin(), e.members.end(), is_read))
      listed.insert(fmt::format("{} {} over {}", to_string(e.phase),
                                message ? "send, recv" : info(e.op).name,
                                program.families[e.family].name));
  });
  return listed;
}

TEST(Marks, OneLayerAloneShowsWhatItSendsAndTheBucketsItIsIn) {
  for (const Program& program : {sharded_optimizer(), ringed(), fully_sharded()})
    for (int64_t layer = 0; layer < 4; ++layer)
      EXPECT_THAT(drawn_of_layer(program, layer), IsSupersetOf(listed_of_layer(program, layer)))
          << program.model << " " << layer;
}

TEST(Marks, WhatOneLayerSharesIsDrawnInThatLayer) {
  const Diagram d = draw_program(fully_sharded(), {});
  size_t gathers = 0;
  for (const Box& b : d.boxes)
    if (b.lines[0] == "backward all_gather" && b.lines[1].find("over dp-cp") == 0 && b.frame >= 0)
      gathers += d.frames[static_cast<size_t>(b.frame)].title.find("layers 0 to") == 0;
  EXPECT_EQ(gathers, 1u);
}

TEST(Marks, ARingIsAChainFromBothItsValuesAndBack) {
  const Program program = analyze(load_model(S2T_SOURCE_DIR "/models/cp_ring.json"));
  const Diagram d = draw_program(program, {});
  std::map<std::pair<BoxKind, BoxKind>, size_t> arrows;
  for (const Arrow& a : d.arrows) ++arrows[{d.boxes[a.from].kind, d.boxes[a.to].kind}];
  EXPECT_EQ((arrows[{BoxKind::op, BoxKind::forward}]), 2u);  // kh and vh
  EXPECT_EQ((arrows[{BoxKind::forward, BoxKind::forward}]), 2u);
  EXPECT_EQ((arrows[{BoxKind::forward, BoxKind::op}]), 1u);
  EXPECT_EQ((arrows[{BoxKind::op, BoxKind::backward}]), 1u);
  EXPECT_EQ((arrows[{BoxKind::backward, BoxKind::backward}]), 3u);
  EXPECT_EQ((arrows[{BoxKind::backward, BoxKind::op}]), 2u);
}

TEST(Marks, TheFrameworksBatchComesBeforeTheFirstOpOfItsStage) {
  const Diagram d = draw_program(experts(), {});
  EXPECT_THAT(lines_of(d, "batch.tokens, batch.position_ids"),
              ElementsAre("forward broadcast", "over tp, 256 B, 2 calls",
                          "batch.tokens, batch.position_ids"));
  size_t order = 0;
  for (const Arrow& a : d.arrows) order += a.kind == ArrowKind::order;
  EXPECT_GE(order, 4u);
}

TEST(Marks, TheFrameworksStepIsAChainOfItsOwn) {
  ReportOptions step;
  step.phase = "step";
  const Diagram d = draw_program(sharded_optimizer(), step);
  EXPECT_EQ(d.shown, "only step collectives");
  EXPECT_EQ(d.frames.back().title, "after the last backward");
  std::vector<std::string> names;
  for (const Box& b : d.boxes)
    if (b.frame + 1 == static_cast<int>(d.frames.size())) names.push_back(b.lines.at(2));
  EXPECT_THAT(names, ElementsAre("grad_norm", "step_succeeded", "grad_norm.max", "loss.logged"));
  EXPECT_THAT(lines_of(d, "loss.logged"), Contains("stage 1"));
}

TEST(Marks, BucketsStandInTheFrameOfTheirStageNotInOneOfALayer) {
  const Diagram d = draw_program(sharded_optimizer(), {});
  size_t buckets = 0;
  for (const Box& b : d.boxes)
    if (b.lines.back().ends_with("tensors in all")) {
      ++buckets;
      EXPECT_THAT(d.frames.at(static_cast<size_t>(b.frame)).title, HasSubstr("stage"));
    }
  EXPECT_GE(buckets, 2u);
}

TEST(Filter, NamesWhatItLeavesInAndKeepsItOnly) {
  const Program program = sharded_optimizer();
  ReportOptions options;
  options.phase = "forward";
  options.axis = "tp";
  options.layers = "0-1";
  options.rank = Rank(1);
  const Filter filter(program, options);
  EXPECT_EQ(filter.words(), "only forward collectives over tp, layers 0 to 1, rank 1");
  EXPECT_EQ(Filter(program, {}).words(), "");
  for_each_kept_event(filter.narrowed(), [&](const Event& e) {
    EXPECT_EQ(e.phase, Phase::forward);
    EXPECT_EQ(program.families[e.family].name, "tp");
    EXPECT_THAT(e.module, testing::AnyOf(HasSubstr("layers.0"), HasSubstr("layers.1")));
  });
}

TEST(Filter, ABucketBelongsToEveryLayerOfItsParameters) {
  const Program program = sharded_optimizer();
  ReportOptions options;
  options.layers = "1";
  const Filter filter(program, options);
  size_t buckets = 0;
  for_each_kept_event(program, [&](const Event& e) {
    if (e.members.size() < 2) return;
    const bool has = std::any_of(e.members.begin(), e.members.end(), [](const std::string& name) {
      return name.starts_with("layers.1.");
    });
    EXPECT_EQ(filter.wants(e), has) << e.tensor;
    buckets += has;
  });
  EXPECT_GE(buckets, 1u);
}

TEST(Filter, ARangeThatEndsBeforeItBeginsIsTurnedRound) {
  ReportOptions options;
  options.layers = "3-2";
  const Program program = sharded_optimizer();
  try {
    const Filter filter(program, options);
    FAIL();
  } catch (const UserError& e) {
    EXPECT_EQ(e.diagnostics().front().found, "\"3-2\" ends before it begins");
    EXPECT_EQ(e.diagnostics().front().advice, "Did you mean \"2-3\"?");
  }
}

}  // namespace
}  // namespace s2t
