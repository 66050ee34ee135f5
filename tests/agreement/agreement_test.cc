// Every model of models/, every small model that shows one feature, and the models whose PyTorch
// runs were recorded: each runs as it is predicted, and computes what the unsharded model computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "analyzer/analyze.h"
#include "analyzer/io/model_json.h"
#include "analyzer/program/listing.h"
#include "tests/agreement/on_host.h"

namespace s2t {
namespace {

// Models whose weights are far too large for a test of the numbers: only their events are recorded.
const std::set<std::string> kTooLarge{"ddp_buckets", "ddp_first_iteration", "ddp_frozen",
                                      "ddp_no_sync"};

// There is no collective, or what the last one brings is 0 or read by nobody.
const std::set<std::string> kNotMissed{"no_sync", "vanishing_gradient", "fused_column_linear"};

std::vector<std::string> models_in(const std::string& folder,
                                   const std::set<std::string>& without) {
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(S2T_SOURCE_DIR "/" + folder))
    if (file.path().extension() == ".json" && !without.count(file.path().stem().string()))
      files.push_back(folder + "/" + file.path().filename().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::string stem(const testing::TestParamInfo<std::string>& of) {
  return std::filesystem::path(of.param).stem().string();
}

class EveryModel : public testing::TestWithParam<std::string> {};

TEST_P(EveryModel, RunsAsPredicted) {
  expect_as_predicted(load_model(S2T_SOURCE_DIR "/" + GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, testing::ValuesIn(models_in("models", {})), stem);
INSTANTIATE_TEST_SUITE_P(Features, EveryModel,
                         testing::ValuesIn(models_in("tests/agreement/models", {})), stem);
INSTANTIATE_TEST_SUITE_P(Recorded, EveryModel,
                         testing::ValuesIn(models_in("tests/recorded/models", kTooLarge)), stem);

// A check that cannot fail proves nothing: without its last collective a model's numbers are wrong.
class EveryFeature : public testing::TestWithParam<std::string> {};

TEST_P(EveryFeature, FailsByItsNumbersWithoutItsLastCollective) {
  const Model model = load_model(S2T_SOURCE_DIR "/" + GetParam());
  const std::vector<Event> events = list_events(analyze(model));
  ASSERT_FALSE(events.empty());
  VerifyOptions options;
  options.backend = find_backend("host");
  options.hooks.skip = {std::string(to_string(events.back().phase)), events.back().tensor};
  const Verification v = verify(model, options);
  EXPECT_TRUE(std::any_of(v.checks.begin(), v.checks.end(),
                          [](const Check& c) { return !c.passed && c.name != "events"; }))
      << to_string(events.back().phase) << " of " << events.back().tensor << "\n"
      << text_of(v);
}

INSTANTIATE_TEST_SUITE_P(Features, EveryFeature,
                         testing::ValuesIn(models_in("tests/agreement/models", kNotMissed)), stem);

}  // namespace
}  // namespace s2t
