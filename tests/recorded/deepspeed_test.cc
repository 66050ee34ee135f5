// What DeepSpeed 0.14.4 sent for small programs, as recorded by deepspeed/record.py here, against the
// predictions for transformers of the same sizes: what crosses a border of stages cut over tp, a step
// with experts under ZeRO 0 to 2, heads exchanged for tokens.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "analyzer/analyze.h"
#include "analyzer/io/transformer.h"
#include "analyzer/program/listing.h"
#include "tests/analyzer/io/architectures.h"

namespace s2t {
namespace {

using nlohmann::json;
using Lines = std::vector<std::string>;

json recorded(const std::string& name) {
  std::ifstream file(std::string(S2T_SOURCE_DIR) + "/tests/recorded/deepspeed/steps.json");
  return json::parse(file).at(name);
}

Architecture model() {
  Architecture a = dense(2, 16, 4);
  a.vocab = 24;
  a.ffn = 32;
  return a;
}

Plan plan_of(int64_t tp, int64_t pp, int64_t dp, int64_t seq) {
  Plan p;
  p.tp = tp, p.pp = pp, p.dp = dp, p.seq = seq;
  p.micro_batch = 2;
  p.dtype = DType::f32;
  return p;
}

Program predicted(const Architecture& a, const Plan& plan,
                  const std::vector<std::string>& changes = {}) {
  Profile profile = find_profile("deepspeed").value();
  for (const std::string& change : changes) EXPECT_FALSE(profile.set(change));
  Diagnostics sink("config.json");
  const auto model = build_transformer(a, plan, profile, sink);
  sink.throw_if_any();
  return analyze(*model);
}

// ["send", "float32", 64, [0, 4]]
json call_of(const Program& p, const Event& e, Rank rank) {
  json ranks;
  const bool send = e.op == Collective::send, recv = e.op == Collective::recv;
  if (send) ranks = {rank.value, e.peer->value};
  if (recv) ranks = {e.peer->value, rank.value};
  if (!send && !recv)
    for (const Rank r : p.mesh.group_of(p.families[e.family], rank)) ranks.push_back(r.value);
  const Count bytes = recv ? e.volume.output_bytes : e.volume.input_bytes;
  return {info(e.op).name, info(e.dtype).name, bytes / size_of(e.dtype), ranks};
}

// Calls that the two programs share, of every rank: those of the recording that are not `other`, and
// those of the prediction that are `meant`.
void expect_the_same(const json& recording, const Program& p,
                     const std::function<bool(const json&)>& other,
                     const std::function<bool(const Event&)>& meant,
                     const std::function<void(json&)>& blurred = {}) {
  for (size_t rank = 0; rank < recording.size(); ++rank) {
    const Rank r(static_cast<int>(rank));
    Lines sent, expected;
    const auto add = [&](json call, Lines& to) {
      if (blurred) blurred(call);
      to.push_back(call.dump());
    };
    for (const json& call : recording[rank])
      if (!other(call)) add(call, sent);
    for (const Event& e : events_of(p, r))
      if (meant(e)) add(call_of(p, e, r), expected);
    EXPECT_FALSE(sent.empty());
    EXPECT_EQ(expected, sent) << "rank " << rank;
  }
}

TEST(RecordedDeepSpeed, CutsBordersOverTensorParallelRanks) {
  Plan plan = plan_of(2, 2, 2, 4);
  plan.global_batch = 8;
  expect_the_same(
      recorded("pipeline_of_cut_borders"), predicted(model(), plan),
      [](const json& call) { return call[0] == "all_reduce" && call[2] != 1; },  // gradients
      [](const Event& e) {
        return e.op == Collective::send || e.op == Collective::recv ||
               e.module.rfind("border", 0) == 0 || (e.module == "loss" && e.phase == Phase::step);
      });
}

class WithExperts : public testing::TestWithParam<int> {};

// Dense parameters differ in number.
TEST_P(WithExperts, EndsAStepAsRecorded) {
  Architecture a = model();
  a.layers = 1;
  a.experts = Experts{4, 2, 32};
  Plan plan = plan_of(1, 1, 4, 8);
  plan.ep = 2;
  plan.zero = GetParam();
  expect_the_same(
      recorded("experts_zero" + std::to_string(GetParam())), predicted(a, plan),
      [](const json&) { return false; }, [](const Event&) { return true; },
      [](json& call) {
        if (call[3].size() == 4 && call[2] != 1) call[2] = "dense";
      });
}

INSTANTIATE_TEST_SUITE_P(RecordedDeepSpeed, WithExperts, testing::Values(0, 1, 2));

TEST(RecordedDeepSpeed, ExchangesHeadsForTokens) {
  Architecture a = dense(1, 64, 8);
  a.vocab = 24;
  a.kv_heads = 4;
  Plan plan = plan_of(1, 1, 1, 32);
  plan.cp = 4;
  expect_the_same(
      recorded("exchanged_heads"), predicted(a, plan, {"exchanged_kv_heads=own"}),
      [](const json&) { return false; },
      [](const Event& e) { return e.op == Collective::all_to_all; });
}

}  // namespace
}  // namespace s2t
