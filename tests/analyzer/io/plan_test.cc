// What is said of plans that cannot be, and what would fit instead.
#include "analyzer/io/plan.h"

#include <gmock/gmock.h>

#include "analyzer/io/fit.h"
#include "analyzer/io/hf_config.h"
#include "analyzer/io/model_sections.h"
#include "analyzer/schedule/pipeline.h"
#include "tests/analyzer/io/framework_steps.h"

namespace s2t {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Fit, SharesLayersWithTheShortStagesAtTheEnds) {
  EXPECT_EQ(run_lengths(shares(126, 16)), "7,14x8,7");
  EXPECT_EQ(run_lengths(shares(61, 16)), "3,13x4,2x3");
  EXPECT_EQ(run_lengths(shares(32, 4)), "4x8");
  EXPECT_THAT(shares(3, 4), IsEmpty());
  for (int64_t layers = 1; layers < 40; ++layers)
    for (int64_t stages = 1; stages <= layers; ++stages) {
      int64_t sum = 0;
      for (const int64_t n : shares(layers, stages)) {
        EXPECT_GE(n, 1) << layers << " over " << stages;
        sum += n;
      }
      EXPECT_EQ(sum, layers);
    }
}

TEST(Fit, NamesDivisorsAndNeighbours) {
  EXPECT_EQ(divisors(12), "1, 2, 3, 4, 6 or 12");
  EXPECT_EQ(divisors(7), "1 or 7");
  EXPECT_EQ(divisors(1), "1");
  EXPECT_EQ(neighbours(100, 16), "96 or 112 (multiples of 16)");
  EXPECT_EQ(neighbours(3, 16), "16, or another multiple of it");
}

TEST(Plan, ProposesStagesForItsOwnLayers) {
  Plan plan = plan_of(1, 128, false);
  plan.pp = 5;
  EXPECT_THAT(refusals(dense(32, 64, 4), plan),
              ElementsAre(HasSubstr("32 layers do not divide into 5 stages; expected 1, 2, 4, 8, "
                                    "16 or 32. Or say how many layers each stage has: "
                                    "--stage-layers 6,2x7,2x6.")));
  plan.stage_layers = {8, 8, 8, 8};
  EXPECT_THAT(refusals(dense(32, 64, 4), plan),
              ElementsAre(HasSubstr("4 stages; expected 5: pp 5 x vpp 1. For example: "
                                    "--stage-layers 6,2x7,2x6.")));
  plan.stage_layers = {};
  plan.pp = 64;
  EXPECT_THAT(refusals(dense(32, 64, 4), plan),
              ElementsAre(HasSubstr("Each stage needs a layer.")));
  plan.pp = 4;
  plan.vpp = 3;
  plan.global_batch = 4;
  EXPECT_THAT(refusals(dense(32, 64, 4), plan),
              ElementsAre(HasSubstr("--vpp: 32 layers do not divide into 12 stages; expected 1, 2, "
                                    "4 or 8. Or say how many layers each stage has: "
                                    "--stage-layers 2x2,8x3,2x2.")));
}

TEST(Plan, ProposesExpertsForItsOwnRanks) {
  Plan plan = plan_of(1, 128, false);
  plan.dp = 4;
  plan.ep = 3;
  EXPECT_THAT(
      refusals(mixtral(2), plan),
      ElementsAre(HasSubstr("3 does not divide the 8 experts; expected 1, 2 or 4. With more "
                            "ranks: 1, 2, 4 or 8.")));
  plan.ep = 8;
  EXPECT_THAT(refusals(mixtral(2), plan),
              ElementsAre(HasSubstr("do not divide the 4 ranks of a stage (tp x cp x dp); expected "
                                    "1, 2 or 4. Or --dp 8.")));
  plan.ep = 1;
  plan.etp = 8;
  EXPECT_THAT(refusals(mixtral(2), plan),
              ElementsAre(HasSubstr("--etp: 8 does not divide the 4 ranks of a stage (tp x cp x "
                                    "dp); expected 1, 2 or 4. Or --dp 8.")));
  plan.etp = 3;
  EXPECT_THAT(refusals(mixtral(2), plan),
              ElementsAre(HasSubstr("--etp: 3 does not divide the 14336 columns of an expert; "
                                    "expected 1, 2 or 4")));
  plan.etp = 0;
  plan.tp = plan.ep = 3;  // the heads alone are said of --tp
  plan.seq = 129;
  EXPECT_THAT(refusals(mixtral(2), plan, {"vocabulary_padding=128"}),
              Contains(HasSubstr("--ep: 3 does not divide the 8 experts; expected 1, 2, 4 or 8")));
  Architecture narrow = mixtral(2);
  narrow.experts->ffn = 14;
  plan.tp = 4;
  plan.ep = 2;
  plan.sp = true;
  plan.seq = 128;
  EXPECT_THAT(refusals(narrow, plan),
              ElementsAre(HasSubstr("--tp: 4 does not divide the 14 columns of an expert; expected "
                                    "1 or 2. Or --etp 1")));
}

TEST(Plan, SaysOneThingOnce) {
  const auto contradictions = [](auto change) {
    Plan plan = plan_of(1, 128, false);
    plan.pp = 4;
    plan.global_batch = 4;
    change(plan);
    std::vector<std::string> lines = refusals(dense(32, 64, 4), plan);
    std::erase_if(lines, [](const std::string& l) { return !l.ends_with("[contradiction]"); });
    return lines;
  };
  EXPECT_THAT(contradictions([](Plan& p) {
                p.stage_layers = {8, 8, 8, 8};
                p.first_layers = 5;
                p.last_layers = 3;
              }),
              ElementsAre(HasSubstr("--stage-layers: --first-layers states the layers of the "
                                    "first stage too; expected one of the two. Leave out "
                                    "--stage-layers or --first-layers."),
                          HasSubstr("--stage-layers: --last-layers states the layers")));
  EXPECT_THAT(contradictions([](Plan& p) {
                p.vpp = 2;
                p.layers_per_chunk = 2;
              }),
              ElementsAre(HasSubstr("--vpp: --layers-per-chunk states the")));
  EXPECT_THAT(contradictions([](Plan& p) {
                p.vpp = 1;
                p.layers_per_chunk = 2;
              }),
              ElementsAre(HasSubstr("--vpp: --layers-per-chunk states the")));
  EXPECT_THAT(contradictions([](Plan& p) {
                p.first_layers = 8;
                p.layers_per_chunk = 4;
              }),
              ElementsAre(HasSubstr("--first-layers: --layers-per-chunk states the")));
  Plan agreed;
  agreed.pp = 4;
  agreed.vpp = 2;
  agreed.layers_per_chunk = 4;
  EXPECT_EQ(resolved(agreed, dense(32, 64, 4)).vpp, 2);
  Diagnostics none;
  check_contradictions(agreed, 32, none);
  EXPECT_FALSE(none.any());
}

TEST(Plan, NamesTheKeyThatDoesNotDivide) {
  Architecture a = parse_hf_config(R"({"model_type": "gpt2", "n_embd": 66, "n_head": 33,
      "n_layer": 7, "n_positions": 100})");
  Plan plan = plan_of(2, 128, false);
  plan.pp = 2;
  EXPECT_THAT(
      refusals(a, plan),
      ElementsAre(HasSubstr("--tp: 2 does not divide the 33 heads (/n_head); expected 1, 3, "
                            "11 or 33"),
                  HasSubstr("--seq: 128 tokens, but the table of learned positions has 100 "
                            "rows for them (/n_positions); expected at most 100"),
                  HasSubstr("--pp: 7 layers (/n_layer) do not divide into 2 stages")));
  a = parse_hf_config(R"({"model_type": "gemma3", "text_config": {"hidden_size": 64,
      "intermediate_size": 66, "num_attention_heads": 6, "num_hidden_layers": 2,
      "num_key_value_heads": 3}})");
  EXPECT_THAT(refusals(a, plan_of(2, 128, false)),
              ElementsAre(HasSubstr("3 key-value heads (/text_config/num_key_value_heads)")));
}

TEST(Plan, GivesAdviceThatIsTaken) {
  Plan plan = plan_of(1, 511, false);
  plan.cp = 5;
  EXPECT_THAT(refusals(dense(1, 40, 5), plan),
              ElementsAre(HasSubstr("expected 510 or 520 (multiples of 10)")));
  plan.seq = 520;
  EXPECT_NO_THROW(model_of(dense(1, 40, 5), plan));
}

TEST(Plan, OfChunksNeedsAPipelineBeforeADivisor) {
  Plan plan = plan_of(1, 32, false);
  for (const int64_t layers : {1, 2, 3}) {
    plan.layers_per_chunk = layers;
    EXPECT_THAT(refusals(dense(40, 64, 4), plan), Contains(HasSubstr("expected --pp 2 or more")));
  }
}

TEST(Plan, RemarksSamplesThatAreLongerThanTheConfigSays) {
  Architecture a = parse_hf_config(R"({"model_type": "llama", "hidden_size": 64,
      "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 1,
      "vocab_size": 256, "max_position_embeddings": 100})");
  const auto slugs = [&](int64_t seq) {
    std::vector<std::string> all;
    for (const Remark& r : model_of(a, plan_of(1, seq, false)).remarks) all.push_back(r.slug);
    return all;
  };
  EXPECT_THAT(slugs(128), Contains("long-samples"));
  EXPECT_THAT(slugs(100), testing::Not(Contains("long-samples")));
}

TEST(Plan, CountsNothingThatOverflows) {
  Plan plan = plan_of(int64_t{1} << 24, 128, true);
  plan.pp = plan.dp = plan.cp = plan.ep = plan.etp = int64_t{1} << 24;
  plan.vpp = 10'000;
  plan.micro_batch = plan.global_batch = int64_t{1} << 32;
  plan.world = 8;
  EXPECT_THAT(refusals(mixtral(32), plan), Contains(HasSubstr("more than 16,777,216 ranks")));
  Diagnostics job;
  check_job(plan, job);
  EXPECT_TRUE(job.any());
}

TEST(Plan, HasScheduleOnlyWithThePipelineItNeeds) {
  Plan plan = plan_of(1, 128, false);
  plan.schedule = "gpipe";
  EXPECT_THAT(refusals(dense(4, 64, 4), plan),
              ElementsAre(HasSubstr("\"gpipe\" without a pipeline; expected --pp 2 or more")));
  plan.pp = 2;
  plan.schedule = "interleaved";
  EXPECT_THAT(refusals(dense(4, 64, 4), plan),
              ElementsAre(HasSubstr("expected --vpp 2 or more, or \"1f1b\"")));
  plan.schedule = "deepspeed";
  EXPECT_THAT(refusals(dense(4, 64, 4), plan),
              ElementsAre(HasSubstr("the schedule of DeepSpeed under megatron")));
}

// A dim has at most 2^40 elements; products with what a token is routed to fit 64 bits then.
TEST(Plan, HasNoMoreTokensThanADimMayHave) {
  Plan plan = plan_of(1, int64_t{1} << 32, false);
  plan.micro_batch = int64_t{1} << 32;
  for (const char* framework : {"megatron", "torchtitan", "ddp", "deepspeed"})
    EXPECT_THAT(refusals(mixtral(4), plan, profile_of(framework)),
                ElementsAre(HasSubstr("--micro-batch: 4,294,967,296 samples of 4,294,967,296 "
                                      "tokens on each of 1 data-parallel ranks; expected at most "
                                      "1,099,511,627,776 of all three multiplied")));
  Diagnostics job;
  check_job(plan, job);
  EXPECT_TRUE(job.any());
  plan.micro_batch = 1 << 8;
  EXPECT_NO_THROW(model_of(mixtral(4), plan, profile_of("megatron")));
  plan.dp = 2;
  EXPECT_THAT(refusals(mixtral(4), plan), ElementsAre(HasSubstr("on each of 2 data-parallel")));
}

TEST(Plan, KnowsWhichSchedulesTakeChunks) {
  for (const ScheduleDef& schedule : schedules())
    EXPECT_EQ(takes_chunks(schedule.name), schedule.chunked) << schedule.name;
}

TEST(Plan, RunsAStatedScheduleOfChunksUnderItsFrameworkAlone) {
  const Architecture a = framework_steps::llama(8, 64, 8, 96);
  const std::pair<const char*, const char*> own[] = {{"megatron", "interleaved"},
                                                     {"torchtitan", "interleaved_steps"}};
  for (const auto& [framework, its] : own)
    for (const auto& [other, schedule] : own) {
      Plan plan = plan_of(1, 128, false);
      plan.pp = plan.vpp = 2;
      plan.global_batch = 4;
      const Profile profile = profile_of(framework);
      EXPECT_EQ(model_of(a, plan, profile).pipeline->schedule, its);
      plan.schedule = schedule;
      if (schedule == its)
        EXPECT_EQ(model_of(a, plan, profile).pipeline->schedule, its);
      else
        EXPECT_THAT(refusals(a, plan, profile), ElementsAre(HasSubstr("--schedule: ")));
      plan.vpp = 1;
      EXPECT_THAT(refusals(a, plan, profile),
                  Contains(HasSubstr("with one model chunk per rank; expected --vpp 2 or more")));
      plan.vpp = 2;
      plan.schedule = "gpipe";
      EXPECT_THAT(refusals(a, plan, profile), Contains(HasSubstr("expected --vpp 1, or leave")));
    }
}

// parallel_state.py, initialize_model_parallel: an order that ends with pp, or one replica of
// experts for each of the rest and the same pipeline groups.
TEST(Order, MayEndOtherwiseWhereExpertsHaveTheSameReplicas) {
  Plan plan = plan_of(2, 128, true);
  plan.pp = plan.ep = 2;
  plan.etp = 1;
  plan.dp = 4;
  plan.order = "tp-cp-ep-pp-dp";
  const Program p = predict(mixtral(2), plan);
  const auto first = [&](const char* axis) {
    return p.mesh.groups(p.mesh.family_of(p.mesh.find(axis)->atoms)).at(0);
  };
  EXPECT_THAT(first("ep"), ElementsAre(Rank(0), Rank(1)));
  EXPECT_THAT(first("pp"), ElementsAre(Rank(0), Rank(2)));
  EXPECT_THAT(first("edp"), ElementsAre(Rank(0), Rank(4), Rank(8), Rank(12)));
  plan.etp = 2;  // two replicas of experts, four of the rest
  EXPECT_THAT(refusals(mixtral(2), plan),
              ElementsAre(HasSubstr("\"tp-cp-ep-pp-dp\" with tp 2 x cp 1, of experts etp 2 x ep 2, "
                                    "under megatron; expected an order that ends with pp")));
  plan.etp = 1;
  plan.order = "tp-pp-cp-ep-dp";  // neighbours of pp are 2 ranks apart, of experts 1
  EXPECT_THAT(refusals(mixtral(2), plan), ElementsAre(HasSubstr("expected an order that ends")));
}

}  // namespace
}  // namespace s2t
