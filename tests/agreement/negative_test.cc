// Negative controls: a wrong prediction, and a wrong run, are found and named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "analyzer/analyze.h"
#include "analyzer/cli/verification.h"
#include "analyzer/io/model_json.h"
#include "runtime/run/execute.h"

namespace s2t {
namespace {

using testing::HasSubstr;

Model model(const std::string& name) {
  return load_model(S2T_SOURCE_DIR "/models/" + name + ".json");
}

VerifyOptions on_host() {
  VerifyOptions options;
  options.backend = find_backend("host");
  options.run.timeout = std::chrono::seconds(5);
  return options;
}

// One run of a model, and its own prediction to spoil.
class SpoiledPrediction : public testing::Test {
 protected:
  SpoiledPrediction() : program(analyze(model("tp_sp_b128"))), ran(one_run()) {}

  static const Verification& one_run() {
    static const Verification v = verify(model("tp_sp_b128"), on_host());
    return v;
  }
  std::vector<Difference> differences() const { return compare(program, ran.observed); }
  std::vector<Segment::Item>& forward() { return program.stages[0].forward.items; }
  std::vector<Segment::Item>& backward() { return program.stages[0].backward.items; }

  Program program;
  Verification ran;
};

TEST_F(SpoiledPrediction, IsRightBeforeItIsSpoiled) {
  EXPECT_TRUE(differences().empty());
  EXPECT_EQ(forward().size(), 2u);
}

TEST_F(SpoiledPrediction, DroppedEventIsAnExtraCall) {
  forward().erase(forward().begin() + 1);
  const auto found = differences();
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].kind, Difference::Kind::extra);
  EXPECT_EQ(found[0].rank, Rank(0));
  EXPECT_EQ(found[0].position, 1u);
  EXPECT_THAT(found[0].text, HasSubstr("rank 0, call 1: all_gather of y on tp"));
}

TEST_F(SpoiledPrediction, AddedEventDidNotRun) {
  backward().insert(backward().begin(), forward().front());
  const auto found = differences();
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].kind, Difference::Kind::missing);
  EXPECT_EQ(found[0].event, 2);
  EXPECT_THAT(found[0].text, HasSubstr("event 2 (reduce_scatter of y on tp"));
}

TEST_F(SpoiledPrediction, ResizedEventDiffersInBytes) {
  forward()[0].event.volume.input_bytes += 4;
  const auto found = differences();
  ASSERT_EQ(found.size(), 4u);  // one per rank
  EXPECT_EQ(found[0].kind, Difference::Kind::differs);
  EXPECT_EQ(found[0].event, 0);
  EXPECT_EQ(found[0].fields, std::vector<std::string>{"input_bytes"});
  EXPECT_EQ(found[3].rank, Rank(3));
}

TEST_F(SpoiledPrediction, EventOnAnotherGroupIsNamed) {
  for (size_t f = 0; f < program.families.size(); ++f)
    if (program.families[f].name == "dp") forward()[0].event.family = f;
  const auto found = differences();
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].fields, std::vector<std::string>{"group"});
  EXPECT_THAT(found[0].text, HasSubstr("on dp [0, 2]"));
  EXPECT_THAT(found[0].text, HasSubstr("on tp [0, 1]"));
}

TEST_F(SpoiledPrediction, SwappedEventsAreOneDifferencePerRank) {
  std::swap(backward()[0], backward()[1]);
  const auto found = differences();
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].kind, Difference::Kind::swapped);
  EXPECT_EQ(found[0].event, 2);
  EXPECT_EQ(found[0].position, 2u);
}

TEST_F(SpoiledPrediction, OtherOperationPhaseAndTypeAreNamed) {
  forward()[1].event.op = Collective::all_reduce;
  forward()[1].event.phase = Phase::recompute;
  forward()[1].event.dtype = DType::bf16;
  const auto found = differences();
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].fields, (std::vector<std::string>{"op", "phase", "dtype"}));
}

TEST_F(SpoiledPrediction, RankThatSaysNothingMissesEverything) {
  ran.observed[2].clear();
  for (const Difference& d : differences()) {
    EXPECT_EQ(d.rank, Rank(2));
    EXPECT_EQ(d.kind, Difference::Kind::missing);
  }
  EXPECT_EQ(differences().size(), 6u);
}

TEST(SpoiledSplits, AreNamed) {
  Program program = analyze(model("ep_skewed"));
  const Verification ran = verify(model("ep_skewed"), on_host());
  ASSERT_TRUE(ran.match());
  for (Segment::Item& item : program.stages[0].forward.items)
    if (item.event.splits) std::swap(item.event.splits->send[0], item.event.splits->send[1]);
  const auto found = compare(program, ran.observed);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].fields, std::vector<std::string>{"splits"});
}

TEST(SpoiledMessages, PeerAndLaunchAreNamed) {
  const Verification ran = verify(model("1f1b_p4_m8"), on_host());
  ASSERT_TRUE(ran.match());
  auto observed = ran.observed;
  observed[1][0].peer = Rank(3);
  EXPECT_EQ(compare(analyze(model("1f1b_p4_m8")), observed)[0].fields,
            std::vector<std::string>{"peer"});
  Program program = analyze(model("1f1b_p4_m8"));
  program.batched_p2p = false;
  EXPECT_EQ(compare(program, ran.observed)[0].fields, std::vector<std::string>{"batch"});
}

// --- a wrong run ---------------------------------------------------------------------------------

const Check& check_of(const Verification& v, const std::string& name) {
  for (const Check& c : v.checks)
    if (c.name == name) return c;
  throw std::out_of_range(name);
}

struct Skipped {
  std::string model, phase, tensor, check;
};
std::ostream& operator<<(std::ostream& out, const Skipped& s) {
  return out << s.model << ": " << s.phase << " of " << s.tensor;
}

std::string file_of(const std::string& model) {
  const std::string small = S2T_SOURCE_DIR "/tests/agreement/models/" + model + ".json";
  return std::filesystem::exists(small) ? small : S2T_SOURCE_DIR "/models/" + model + ".json";
}

class SkippedCollective : public testing::TestWithParam<Skipped> {};

TEST_P(SkippedCollective, FailsByItsNumbers) {
  VerifyOptions options = on_host();
  options.hooks.skip = {GetParam().phase, GetParam().tensor};
  const Verification v = verify(load_model(file_of(GetParam().model)), options);
  EXPECT_FALSE(check_of(v, "events").passed);
  EXPECT_FALSE(check_of(v, GetParam().check).passed) << GetParam().check;
  EXPECT_FALSE(v.match());
}

INSTANTIATE_TEST_SUITE_P(
    Collectives, SkippedCollective,
    testing::Values(Skipped{"tp_mlp", "forward", "p0", "forward"},
                    Skipped{"tp_pp_dp_8ranks_x_grad", "backward", "x", "input_gradients"},
                    Skipped{"dp_mlp", "grad_sync", "w1_0", "gradients"},
                    Skipped{"dp_mlp", "grad_sync", "w1_0", "replicas"},
                    Skipped{"bf16_mlp", "grad_sync", "w1", "gradients"},
                    Skipped{"bf16_mlp", "forward", "y", "forward"},
                    Skipped{"ep_skewed", "forward", "rows", "forward"},
                    Skipped{"ep_skewed", "backward", "g", "gradients"},
                    Skipped{"pp_mb1", "forward", "g", "forward"},
                    Skipped{"pp_mb1", "backward", "g", "gradients"},
                    Skipped{"fsdp_mlp", "backward", "w2", "gradients"},
                    Skipped{"zero1_mlp", "step", "w2", "update"},
                    Skipped{"ddp_buckets", "grad_sync", "w2", "update"},
                    Skipped{"layer_megatron_sp", "backward", "l0_n1", "gradients"},
                    Skipped{"ring_of_cut_queries", "forward", "kh", "forward"},
                    Skipped{"uneven_all_to_all", "backward", "y", "gradients"},
                    Skipped{"uneven_fsdp_tp", "grad_sync", "table", "gradients"},
                    Skipped{"uneven_zero3_tp", "step", "w", "update"},
                    Skipped{"layer_bf16", "grad_sync", "g1", "update"},
                    // What rounding excuses is not what a missing call does.
                    Skipped{"f32_gradients_bf16", "grad_sync", "w1", "gradients"},
                    Skipped{"f32_gradients_bf16", "grad_sync", "w1", "update"},
                    Skipped{"f64_gradients_f32", "grad_sync", "w2", "gradients"},
                    Skipped{"cancelling_terms", "forward", "y", "forward"},
                    Skipped{"cancelling_terms", "grad_sync", "gamma", "gradients"},
                    Skipped{"cancelling_terms", "grad_sync", "beta", "update"}));

class SkippedGradientScale : public testing::TestWithParam<const char*> {};

TEST_P(SkippedGradientScale, FailsByItsNumbers) {
  VerifyOptions options = on_host();
  options.hooks.skip_gradient_scale = true;
  const Verification v = verify(load_model(file_of(GetParam())), options);
  EXPECT_TRUE(check_of(v, "events").passed);
  EXPECT_FALSE(check_of(v, "gradients").passed);
  EXPECT_FALSE(check_of(v, "update").passed);
}

INSTANTIATE_TEST_SUITE_P(Models, SkippedGradientScale,
                         testing::Values("dp_mlp", "f32_gradients_bf16", "f64_gradients_f32",
                                         "cancelling_terms"));

// Gradients of a thousandth: a step by them is less than a bfloat16 parameter can show.
TEST(SmallGradients, AreAllJudged) {
  const Verification v = verify(load_model(file_of("deep_bf16_mlp")), on_host());
  EXPECT_THAT(check_of(v, "gradients").text, testing::Not(testing::HasSubstr("not judged")));
}

TEST(SkippedScale, OfSmallGradientsFailsInSixteenBits) {
  VerifyOptions options = on_host();
  options.hooks.skip_gradient_scale = true;
  const Verification v = verify(load_model(file_of("deep_bf16_mlp")), options);
  EXPECT_FALSE(check_of(v, "gradients").passed);
}

TEST(Exactness, IntegersThroughLinearMapsMayNotDifferAtAll) {
  const Verification v =
      verify(load_model(S2T_SOURCE_DIR "/tests/agreement/models/exact_integers.json"), on_host());
  EXPECT_TRUE(v.exact);
  EXPECT_TRUE(v.match());
  EXPECT_EQ(v.max_abs_error, 0);
  for (const Check& c : v.checks) EXPECT_EQ(c.tolerance, 0) << c.name;
}

// --- faults --------------------------------------------------------------------------------------

class Trouble : public testing::TestWithParam<RunHooks::Trouble> {};

TEST_P(Trouble, OfOneRankEndsTheRunAndIsNamedWithItsEvent) {
  VerifyOptions options = on_host();
  options.run.timeout = std::chrono::seconds(2);
  options.hooks.failure = RunHooks::Failure{Rank(1), 3, GetParam()};
  const Verification v = verify(model("tp_sp_b128"), options);
  ASSERT_EQ(v.failures.size(), 4u);
  EXPECT_FALSE(v.match());
  EXPECT_THAT(v.failures[0].text, HasSubstr("rank 1"));
  EXPECT_THAT(v.failures[0].text, HasSubstr("event 2"));  // the last that it made
  if (GetParam() != RunHooks::Trouble::throws) return;
  EXPECT_THAT(v.failures[0].text, HasSubstr("rank 1 died before event 3 tp0, after "));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Trouble,
                         testing::Values(RunHooks::Trouble::throws, RunHooks::Trouble::stalls));

TEST(ManyRanks, RunOnFewCores) {
  Model wide = model("fsdp_mlp");
  wide.mesh.axes[0].size = 64;
  EXPECT_TRUE(verify(wide, on_host()).match());
}

// "y" is whole on both ranks, "g" a half on each: the mean of "g" counts twice, that of "y" once.
std::string with_two_losses(const std::string& scale) {
  const Model two = parse_model(R"json({"schema": "shape2trace.model/1",
    "mesh": {"axes": [{"name": "tp", "size": 2}]}, "loss_scale": ")json" +
                                    scale + R"json(",
    "tensors": {"x": {"shape": [2, 8]},
                "w1": {"shape": [16, 8], "parameter": true, "layout": {"tp": "S(0)"}},
                "w2": {"shape": [8, 16], "parameter": true, "layout": {"tp": "S(1)"}}},
    "ops": [{"op": "linear", "inputs": ["x", "w1"], "output": "h"},
            {"op": "gelu", "inputs": ["h"], "output": "g"},
            {"op": "linear", "inputs": ["g", "w2"], "output": "y"},
            {"op": "mean_square", "inputs": ["y"], "output": "main"},
            {"op": "mean_square", "inputs": ["g"], "output": "extra"},
            {"op": "add", "inputs": ["main", "extra"], "output": "loss"}],
    "loss": "loss"})json",
                                "m.json");
  try {
    return verify(two, on_host()).match() ? "" : "differs";
  } catch (const UserError& e) {
    return e.what();
  }
}

TEST(Refused, MeansThatRanksScaleDifferentlyAreNotCompared) {
  EXPECT_EQ(with_two_losses("local"),
            "m.json: /ops/5: loss adds \"extra\", 2 times the unsharded one because ranks average "
            "over their own elements, to \"main\", 1 times; expected terms that are equally many "
            "times too large, or nothing tells what the sum should be. Say \"loss_scale\": "
            "\"global\", or shard what the means are of alike; `predict` takes it as it is. "
            "[mixed-means]");
  EXPECT_EQ(with_two_losses("global"), "");
}

}  // namespace
}  // namespace s2t
