// Every model of models/ runs as it is predicted, and computes what the unsharded model computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "analyzer/cli/verification.h"
#include "analyzer/io/model_json.h"

namespace s2t {
namespace {

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(S2T_SOURCE_DIR "/models"))
    if (file.path().extension() == ".json") names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class EveryModel : public testing::TestWithParam<std::string> {};

TEST_P(EveryModel, RunsAsPredicted) {
  VerifyOptions options;
  options.backend = find_backend("host");
  const Verification v =
      verify(load_model(S2T_SOURCE_DIR "/models/" + GetParam() + ".json"), options);
  std::ostringstream text;
  write_text(v, text);
  EXPECT_TRUE(v.match()) << text.str();
  for (const auto& list : v.observed) EXPECT_FALSE(list.empty());
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, testing::ValuesIn(model_names()),
                         [](const auto& of) { return of.param; });

}  // namespace
}  // namespace s2t
