#include "analyzer/io/profiles.h"

#include <gmock/gmock.h>

#include <set>

namespace s2t {
namespace {

using testing::HasSubstr;

Profile megatron() {
  return find_profile("megatron").value();
}

std::string refusal(const std::string& assignment) {
  Profile profile = megatron();
  const auto wrong = profile.set(assignment);
  return wrong ? to_string(*wrong, "x") : "";
}

TEST(Profiles, GiveSwitchesOneValueThatTheyMayHave) {
  std::set<std::string_view> settled;
  for (const ProfileDef& def : profiles()) {
    std::set<std::string_view> seen;
    for (const ProfileSetting& s : def.settings) {
      EXPECT_TRUE(seen.insert(s.name).second) << def.name << " has " << s.name << " twice";
      EXPECT_FALSE(s.source.empty()) << s.name;
      Profile profile(def);
      const auto wrong = profile.set(std::string(s.name) + "=" + std::string(s.value));
      EXPECT_FALSE(wrong) << def.name << ": " << wrong->found;
    }
    settled.merge(seen);
  }
  for (const ProfileSwitch& s : profile_switches())
    EXPECT_TRUE(settled.contains(s.name)) << "no profile has " << s.name;
}

TEST(Profiles, OfAnotherVersionHaveWhatTheyDoNotChange) {
  const Profile older = find_profile("megatron-0.8").value();
  EXPECT_EQ(older["norm_sync"], "coalesced");
  EXPECT_EQ(older["expert_groups"], "within_dp");
  EXPECT_EQ(older.settings().size(), megatron().settings().size());
}

TEST(Profiles, HaveNoValueForASwitchThatMeansNothingThere) {
  Profile ddp = find_profile("ddp").value();
  EXPECT_EQ(ddp["reduce_bucket_size"], "");
  EXPECT_EQ(ddp.number("reduce_bucket_size"), 0);
  EXPECT_THAT(to_string(ddp.set("reduce_bucket_size=5").value(), "x"),
              HasSubstr("ddp has no switch \"reduce_bucket_size\""));
  EXPECT_THROW(ddp["no_such_switch"], Fault);
}

TEST(Profiles, TakeNumbersWhereTheySaySo) {
  Profile profile = find_profile("deepspeed").value();
  EXPECT_FALSE(profile.set("expert_capacity=1.25"));
  EXPECT_EQ(profile.real("expert_capacity"), 1.25);
  EXPECT_FALSE(profile.set("expert_capacity=none"));
  EXPECT_EQ(profile.real("expert_capacity"), 0);
  for (const char* x : {"0", "-1", "inf", "nan", "1x", "1e9"})
    EXPECT_TRUE(profile.set(std::string("expert_capacity=") + x)) << x;
}

TEST(Profiles, AreChangedOneSwitchAtATime) {
  Profile profile = megatron();
  EXPECT_FALSE(profile.set("p2p=single"));
  EXPECT_FALSE(profile.set("vocabulary_padding=64"));
  EXPECT_EQ(profile["p2p"], "single");
  EXPECT_EQ(profile.number("vocabulary_padding"), 64);
  EXPECT_EQ(profile["norm_sync"], "coalesced");
  EXPECT_EQ(megatron()["p2p"], "batched");
}

TEST(Profiles, RefuseWordsOfOtherFrameworks) {
  EXPECT_THAT(refusal("context_parallel=gathered_ring"),
              HasSubstr("context_parallel=gathered_ring under megatron; expected one of \"p2p\", "
                        "\"all_gather\", \"a2a\""));
  EXPECT_THAT(refusal("gradient_sync=fsdp"), HasSubstr("The others are of other frameworks"));
  EXPECT_EQ(megatron().values("tensor_parallel"), "optional_sequence");
  EXPECT_TRUE(megatron().is("gradient_sync", "one_bucket"));
  EXPECT_THROW(static_cast<void>(megatron().is("gradient_sync", "onebucket")), Fault);
}

TEST(Profiles, RefuseWhatIsNoSwitchAndWhatIsNoValueOfOne) {
  EXPECT_THAT(refusal("p2pp=single"), HasSubstr("Did you mean \"p2p\"?"));
  EXPECT_THAT(refusal("p2p=singel"), HasSubstr("Did you mean \"single\"?"));
  EXPECT_THAT(refusal("p2p"), HasSubstr("switch=value"));
  EXPECT_THAT(refusal("p2p="), HasSubstr("switch=value"));
  EXPECT_THAT(refusal("expert_groups=data"),
              HasSubstr("expected one of \"folded\", \"within_dp\""));
  for (const char* n : {"0", "-1", "x", "1x", "99999999999999999999"})
    EXPECT_THAT(refusal(std::string("vocabulary_padding=") + n), HasSubstr("positive")) << n;
  for (const char* type : {"float33", "int64", "bool", "f8"})
    EXPECT_THAT(refusal(std::string("gradient_dtype=") + type),
                HasSubstr("expected float32, bfloat16, float16 or float64"));
  for (const char* order : {"foo", "tp-tp", "tp--dp", "-", "tp-dp-"})
    EXPECT_THAT(refusal(std::string("rank_order=") + order), HasSubstr("expected axes, each once"));
  EXPECT_EQ(refusal("rank_order=tp-pp-dp"), "");
}

}  // namespace
}  // namespace s2t
