// Units of parameters that torchtitan and DeepSpeed gather together: what is one, how it is cut, and
// in which order the gathers are issued. Orders of torchtitan with experts were measured with
// PyTorch 2.6 (nested fully_shard); explicit prefetching is that of torchtitan
// models/llama4/infra/parallelize.py, apply_fsdp.
#include <gmock/gmock.h>

#include "tests/analyzer/io/framework_steps.h"

namespace s2t {
namespace {

using namespace framework_steps;
using testing::ElementsAre;
using testing::HasSubstr;

// "AG layers.0.moe.experts", "RS head" of one rank, in order.
Lines units(const Program& program, int rank) {
  Lines lines;
  for (const Event& e : events_of(program, Rank(rank))) {
    const Cause& cause = program.causes.at(e.cause);
    const bool gathers = cause.kind == CauseKind::parameter_gather;
    if (!gathers && (cause.kind != CauseKind::data_sync || e.members.empty())) continue;
    const std::string& first = e.members[0];
    std::string unit = first.substr(0, first.find('.'));
    if (first.rfind("layers.", 0) == 0) unit = first.substr(0, 8);
    if (first.find(".experts.") != std::string::npos) unit += ".experts";
    lines.push_back((gathers ? "AG " : "RS ") + unit);
  }
  return lines;
}

Plan with_experts(int64_t dp, int64_t ep) {
  Plan plan = split_of(1, dp, 16);
  plan.ep = ep;
  return plan;
}

TEST(TorchtitanUnits, WithoutExpertParallelismExpertsBelongToTheirBlock) {
  const Program p = predict(mixtral(2, 8, 2, 2), with_experts(4, 1), profile_of("torchtitan"));
  EXPECT_THAT(units(p, 0), ElementsAre("AG embed", "AG layers.0", "AG layers.1", "AG head",
                                       "AG layers.1", "RS head", "AG layers.0", "RS layers.1",
                                       "AG embed", "RS layers.0", "RS embed"));
}

TEST(TorchtitanUnits, ExpertParallelismPrefetchesBlocksAndTheirExperts) {
  const Program p = predict(mixtral(3, 8, 2, 2), with_experts(4, 2), profile_of("torchtitan"));
  EXPECT_THAT(
      units(p, 0),
      ElementsAre("AG embed", "AG layers.0", "AG layers.1", "AG layers.1.experts",
                  "AG layers.0.experts", "AG layers.2", "AG layers.2.experts", "AG head",
                  // backward: the head names the block alone
                  "AG layers.2", "RS head", "AG layers.1", "AG layers.1.experts",
                  "AG layers.2.experts", "RS layers.2.experts", "RS layers.2", "AG layers.0",
                  "AG layers.0.experts", "RS layers.1.experts", "RS layers.1", "AG embed",
                  "RS layers.0.experts", "RS layers.0", "RS embed"));
}

// FSDP's hooks are outside those that send rows: parameters are there before rows leave, and are
// reduced when the gradients of rows are back.
TEST(TorchtitanUnits, ExpertsAreGatheredBeforeTheirRowsTravel) {
  const Program p = predict(mixtral(1, 8, 2, 2), with_experts(4, 2), profile_of("torchtitan"));
  Lines kinds;
  for (const std::string& call : step(p, 0))
    if (call.rfind("edp", 0) == 0 || call.rfind("ep", 0) == 0)
      kinds.push_back(call.substr(0, call.rfind(' ')));
  EXPECT_THAT(kinds,
              ElementsAre("edp all_gather", "ep all_to_all", "ep all_to_all", "ep all_to_all",
                          "edp all_gather", "ep all_to_all", "ep all_to_all", "edp reduce_scatter",
                          "edp all_reduce", "ep all_reduce"));
}

// Mixtral 8x7B: of 8 ranks per expert each keeps an eighth of its rows, not a whole expert padded.
TEST(TorchtitanUnits, ExpertsAreCutAlongTheirRowsWhereRanksOutnumberThem) {
  Architecture a = mixtral(1, 4096, 32, 2);
  a.experts->ffn = 14336;
  const Program p = predict(a, with_experts(64, 8), profile_of("torchtitan"));
  EXPECT_THAT(step(p, 0, Phase::forward), testing::Contains("edp all_gather 44040192>352321536"));
  EXPECT_THAT(step(p, 0, Phase::grad_sync),
              testing::Contains("edp reduce_scatter 704643072>88080384"));
}

TEST(TorchtitanUnits, RowsOfExpertsMustDivide) {
  EXPECT_THAT(refusals(mixtral(1, 8, 2, 2), with_experts(24, 2), profile_of("torchtitan")),
              ElementsAre(HasSubstr("cut along their rows over 12 ranks")));
}

TEST(TorchtitanUnits, CopiesOfPartsAddTheirGradientsUp) {
  const Program p =
      predict(llama(1, 8, 2, 32), split_of(1, 4, 16), profile_of("torchtitan", {"replicate=2"}));
  const Lines sync = step(p, 0, Phase::grad_sync);
  EXPECT_THAT(sync,
              ElementsAre("dp_shard reduce_scatter 1056>528", "dp_replicate all_reduce 528>528",
                          testing::_, testing::_, testing::_, testing::_));
}

TEST(DeepSpeedUnits, PersistentParametersAreGatheredOneByOne) {
  Plan plan = split_of(1, 4, 16);
  plan.zero = 3;
  const Program p = predict(llama(2, 16, 2, 32), plan,
                            profile_of("deepspeed", {"param_persistence_threshold=16"}));
  int gathers = 0;
  for (const Event& e : p.after)
    if (e.op == Collective::all_gather) {
      EXPECT_EQ(line(p, e), "dp all_gather 8>32");
      ++gathers;
    }
  EXPECT_EQ(gathers, 5);  // two norms in each layer, one in the head
}

TEST(Ddp, TellsWhichParametersWereUsed) {
  const Program p = predict(llama(2, 8, 2, 32), split_of(1, 2, 16),
                            profile_of("ddp", {"find_unused_parameters=true"}));
  EXPECT_EQ(line(p, p.after.back()), "dp all_reduce 84>84");  // of 21 parameters
}

// The small first bucket holds the front of the model, and goes out last.
TEST(Ddp, BucketsThatAreNeverRebuiltAreCutFromTheFront) {
  const Architecture a = llama(2, 512, 8, 1024);
  const Lines later = step(predict(a, split_of(1, 2, 16), profile_of("ddp")), 0, Phase::grad_sync);
  Lines unused =
      step(predict(a, split_of(1, 2, 16), profile_of("ddp", {"find_unused_parameters=true"})), 0,
           Phase::grad_sync);
  unused.pop_back();                                          // the parameters that were used
  EXPECT_EQ(later.front(), "dp all_reduce 1048576>1048576");  // the head's table
  EXPECT_EQ(unused.back(), "dp all_reduce 1048576>1048576");  // the embedding's
}

}  // namespace
}  // namespace s2t
