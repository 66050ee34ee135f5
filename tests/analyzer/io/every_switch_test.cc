// Whatever one switch of a profile is set to, a plan is predicted or refused.
#include <gmock/gmock.h>

#include "analyzer/base/text.h"
#include "tests/analyzer/io/framework_steps.h"

namespace s2t::framework_steps {
namespace {

std::string example_of(const std::string& word) {
  if (word == "N") return "2";
  if (word == "X") return "1.5";
  if (word == "TYPE") return "bfloat16";
  if (word == "ORDER") return "tp-cp-pp-ep-dp";
  return word;
}

// "" unless something else than a refusal came of it.
std::string broken(const Architecture& a, const Plan& p, const Profile& profile) {
  Diagnostics sink("config.json");
  try {
    if (const auto model = build_transformer(a, p, profile, sink)) analyze(*model);
  } catch (const UserError& refused) {
    return fmt::format("refused too late: {}", refused.what());
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

std::vector<std::string> assignments(const ProfileDef& def) {
  std::vector<std::string> all;
  for (const ProfileSwitch& s : profile_switches())
    for (const std::string& word : split(std::string(s.values), ' '))
      if (!Profile(def)[s.name].empty())
        all.push_back(fmt::format("{}={}", s.name, example_of(word)));
  return all;
}

TEST(EverySwitch, IsPredictedOrRefused) {
  const Architecture models[] = {llama(2, 32, 4, 64), mixtral(2, 32, 4, 2)};
  for (const ProfileDef& def : profiles())
    for (const std::string& assignment : assignments(def))
      for (const Architecture& a : models)
        for (int64_t zero = 0; zero <= 3; ++zero) {
          Plan p = split_of(1, 4, 32);
          p.zero = zero;
          if (a.experts && def.name != "ddp") p.ep = 2;
          EXPECT_EQ(broken(a, p, profile_of(std::string(def.name).c_str(), {assignment})), "")
              << def.name << " " << assignment << " zero " << zero << (p.ep > 1 ? " ep 2" : "");
        }
}

TEST(EverySwitch, OfAnotherFrameworksGradientsIsRefused) {
  for (const char* value : {"one_bucket", "overlapped"}) {
    const std::string set = fmt::format("gradient_sync={}", value);
    EXPECT_THAT(refusals(llama(1, 32, 4, 64), split_of(1, 4, 32), profile_of("deepspeed", {set})),
                testing::ElementsAre(testing::HasSubstr(set + " under deepspeed; expected zero")));
  }
}

// 10 tokens with top-2 of 8 experts are 3 rows for each, and 4 are the least.
TEST(EverySwitch, CapacityOfDeepSpeedIsAtLeastFourRows) {
  Plan p = split_of(1, 8, 10);
  p.ep = 8;
  const Counts sent =
      of(predict(mixtral(1, 32, 4, 2), p, profile_of("deepspeed")), Phase::forward, "layers.0.moe");
  const int bytes = 8 * 4 * 32 * 2;  // experts x rows x hidden x bf16
  EXPECT_EQ(sent, (Counts{{fmt::format("ep all_to_all {0}>{0}", bytes), 2}}));
}

Counts balancing(const Plan& p) {
  Counts counts;
  const Profile profile = profile_of("megatron-0.8", {"moe_balancing=aux_loss"});
  for (const std::string& l : calls(predict(mixtral(1, 32, 4, 2), p, profile)))
    if (l.find("moe.balance") != std::string::npos) ++counts[l];
  return counts;
}

TEST(EverySwitch, OldMegatronBalancesOverContextRanksAlone) {
  Plan p = split_of(2, 2, 32);
  p.sp = true;
  p.ep = 2;
  EXPECT_EQ(balancing(p), Counts{});
  p.cp = 2;
  EXPECT_EQ(balancing(p), (Counts{{"layers.0.moe.balance cp all_reduce 64>64", 1}}));
}

TEST(EverySwitch, AttentionSinksNeedExchangedHeads) {
  Architecture a = llama(1, 32, 4, 64);
  a.sinks = true;
  Plan p = split_of(1, 1, 32);
  p.cp = 2;
  EXPECT_THAT(refusals(a, p, profile_of("torchtitan")),
              testing::ElementsAre(testing::HasSubstr("--cp: attention sinks in a ring")));
  EXPECT_THAT(refusals(a, p, profile_of("megatron", {"context_parallel=all_gather"})),
              testing::ElementsAre(testing::HasSubstr("--set context_parallel=a2a only")));
  EXPECT_EQ(broken(a, p, profile_of("megatron", {"context_parallel=a2a"})), "");
}

TEST(EverySwitch, AdviceAboutTokensIsTakenAtOnce) {
  Plan p = split_of(1, 1, 511);
  p.cp = 5;
  EXPECT_THAT(refusals(llama(1, 40, 5, 64), p),
              testing::ElementsAre(testing::HasSubstr("expected 510 or 520 (multiples of 10)")));
  p.seq = 520;
  EXPECT_EQ(broken(llama(1, 40, 5, 64), p, profile_of("megatron")), "");
}

TEST(EverySwitch, ChunksNeedAPipelineBeforeTheyNeedADivisor) {
  Plan p = split_of(1, 1, 32);
  for (const int64_t layers : {1, 2, 3}) {
    p.layers_per_chunk = layers;
    EXPECT_THAT(refusals(llama(40, 32, 4, 64), p),
                testing::Contains(testing::HasSubstr("expected --pp 2 or more")));
  }
}

}  // namespace
}  // namespace s2t::framework_steps
