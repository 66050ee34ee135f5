// Whatever one switch of a profile is set to, a plan is predicted or refused.
#include <gmock/gmock.h>

#include <algorithm>

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
    for (const std::string& word : words_of(Profile(def).values(s.name)))
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

// Words of the switch, all of them, and those of other frameworks among them.
TEST(EverySwitch, TakesItsWordsAndNoneOfAnotherFramework) {
  for (const ProfileDef& def : profiles())
    for (const ProfileSwitch& s : profile_switches()) {
      Profile profile(def);
      const std::vector<std::string> own = words_of(profile.values(s.name));
      if (profile[s.name].empty()) continue;
      for (const std::string& word : words_of(s.values)) {
        const bool taken = std::find(own.begin(), own.end(), word) != own.end();
        EXPECT_EQ(!profile.set(fmt::format("{}={}", s.name, example_of(word))), taken)
            << def.name << " " << s.name << " " << word;
      }
    }
}

}  // namespace
}  // namespace s2t::framework_steps
