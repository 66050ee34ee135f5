// Small models of transformers, as recorded by families.py here: their parameters are those counted
// from their configs, and the buckets in which DDP reduces them are those predicted.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "analyzer/analyze.h"
#include "analyzer/io/hf_config.h"
#include "analyzer/io/transformer.h"

namespace s2t {
namespace {

using nlohmann::json;

std::vector<json> recorded_models() {
  std::ifstream file(std::string(S2T_SOURCE_DIR) + "/tests/recorded/families/families.json");
  return json::parse(file)["models"];
}

std::vector<json> trained_models() {
  std::vector<json> trained;
  for (json& model : recorded_models())
    if (model.contains("buckets")) trained.push_back(std::move(model));
  return trained;
}

std::string name_of(const testing::TestParamInfo<json>& of) {
  return of.param["config"]["model_type"].get<std::string>() + std::to_string(of.index);
}

class RecordedFamily : public testing::TestWithParam<json> {};

TEST_P(RecordedFamily, HasAsManyParameters) {
  const Architecture a = parse_hf_config(GetParam()["config"].dump());
  EXPECT_EQ(parameter_count(a), GetParam()["parameters"].get<Count>());
}

std::vector<Count> predicted_buckets(const Architecture& a) {
  Diagnostics sink(a.family);
  Plan plan;
  plan.dp = 2;
  plan.seq = 16;
  plan.dtype = DType::f32;
  Profile ddp = find_profile("ddp").value();
  EXPECT_FALSE(ddp.set("bucket_cap_mb=1"));
  const auto model = build_transformer(a, plan, ddp, sink);
  sink.throw_if_any();
  std::vector<Count> elements;
  const Program program = analyze(*model);
  for (const Segment::Item& item : program.stages.at(0).backward.items)
    if (item.event.phase == Phase::grad_sync)
      elements.push_back(item.event.volume.input_bytes / size_of(DType::f32));
  return elements;
}

class TrainedFamily : public testing::TestWithParam<json> {};

TEST_P(TrainedFamily, FillsTheSameBuckets) {
  const Architecture a = parse_hf_config(GetParam()["config"].dump());
  EXPECT_EQ(predicted_buckets(a), GetParam()["buckets"].get<std::vector<Count>>());
}

INSTANTIATE_TEST_SUITE_P(Of, RecordedFamily, testing::ValuesIn(recorded_models()), name_of);
INSTANTIATE_TEST_SUITE_P(Of, TrainedFamily, testing::ValuesIn(trained_models()), name_of);

}  // namespace
}  // namespace s2t
