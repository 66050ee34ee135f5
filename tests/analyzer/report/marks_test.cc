// No collective of a program is missing from its picture.
#include "analyzer/report/marks.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "analyzer/io/model_json.h"
#include "analyzer/report/diagram.h"
#include "analyzer/report/folding.h"
#include "tests/analyzer/io/predicted.h"

namespace s2t {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

std::vector<Program> all_programs() {
  std::vector<Program> all{experts(), sharded_optimizer()};
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
