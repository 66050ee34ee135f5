// Which gradients are sent together, in which order, and when: PyTorch DDP, Megatron, DeepSpeed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analyzer/analyze.h"
#include "analyzer/base/text.h"
#include "analyzer/io/model_json.h"
#include "analyzer/program/listing.h"

namespace s2t {
namespace {

// "all_reduce w1+w2" of rank 0: what synchronises gradients, and gathers what the step updated.
std::vector<std::string> sent(const std::string& text, Phase phase = Phase::grad_sync) {
  const Program p = analyze(parse_model(text));
  std::vector<std::string> lines;
  for (const Event& e : events_of(p, Rank(0)))
    if (e.phase == phase)
      lines.push_back(fmt::format("{} {}", info(e.op).name, join(e.members, "+")));
  return lines;
}

using Lines = std::vector<std::string>;

// Two linears; each weight has 256 bytes.
std::string mlp(const std::string& sync) {
  return R"json({
  "schema": "shape2trace.model/1",
  "mesh": {"axes": [{"name": "dp", "size": 2, "kind": "data"}]},
  "batch": {"local": 4, "axes": ["dp"]},
  "tensors": {
    "x": {"shape": ["batch", 8]},
    "w1": {"shape": [8, 8], "parameter": true},
    "w2": {"shape": [8, 8], "parameter": true}
  },
  "ops": [
    {"op": "linear", "inputs": ["x", "w1"], "output": "h"},
    {"op": "gelu", "inputs": ["h"], "output": "g"},
    {"op": "linear", "inputs": ["g", "w2"], "output": "y"},
    {"op": "mean_square", "inputs": ["y"], "output": "loss"}
  ],
  "loss": "loss",
  "gradient_sync": )json" +
         sync + "}";
}

TEST(Buckets, WaitInTurnUnderDdp) {
  EXPECT_EQ(sent(mlp(R"({"kind": "bucketed", "bucket_bytes": 1, "first_bucket_bytes": 1})")),
            (Lines{"all_reduce w2", "all_reduce w1"}));
  EXPECT_EQ(sent(mlp(R"({"kind": "bucketed", "bucket_bytes": 1, "first_bucket_bytes": 1,
                         "order": "parameters"})")),
            (Lines{"all_reduce w1", "all_reduce w2"}));
}

TEST(Buckets, GoAsTheyAreCompleteUnderAShardedOptimizer) {
  EXPECT_EQ(sent(mlp(R"({"kind": "zero2", "bucket_bytes": 1, "order": "parameters"})")),
            (Lines{"reduce_scatter w2", "reduce_scatter w1"}));
}

// Of DeepSpeed's one buffer: what stands in front in the order of the model comes in first.
TEST(Buckets, AreEmptiedOnceWhatIsInFrontIsThere) {
  EXPECT_EQ(sent(mlp(R"({"kind": "zero2", "bucket_bytes": 300, "close": "before",
                         "order": "parameters"})")),
            (Lines{"reduce_scatter w1", "reduce_scatter w2"}));
}

TEST(Buckets, AreCutOnlyWhereAllGradientsAreOneFlatTensor) {
  const std::string whole = R"({"kind": "zero1", "gradients": "whole", "bucket_bytes": 64)";
  EXPECT_EQ(sent(mlp(whole + "}")), (Lines{"all_reduce w2", "all_reduce w1"}));
  // Parts of 64 elements, limits of 16: w1 is one rank's, w2 the other's.
  EXPECT_EQ(sent(mlp(whole + R"(, "update_alignment": 1})")),
            (Lines{"all_reduce w2", "all_reduce w1"}));
  // Parts of 96 elements: w2 begins in the first and ends in the second.
  EXPECT_EQ(sent(mlp(whole + R"(, "update_alignment": 96})")),
            (Lines{"all_reduce w2", "all_reduce w2", "all_reduce w1"}));
}

// Both stages read the table, the first one also a and b, the second c.
std::string tied(const std::string& sync) {
  return R"json({
  "schema": "shape2trace.model/1",
  "mesh": {"axes": [{"name": "dp", "size": 2, "kind": "data"},
                    {"name": "pp", "size": 2, "kind": "pipeline"}]},
  "batch": {"local": 2, "axes": ["dp"]},
  "tensors": {
    "x": {"shape": ["batch", 8]},
    "a": {"shape": [8, 8], "parameter": true},
    "table": {"shape": [8, 8], "parameter": true},
    "b": {"shape": [8, 8], "parameter": true},
    "c": {"shape": [8, 8], "parameter": true}
  },
  "ops": [
    {"op": "linear", "inputs": ["x", "a"], "output": "u"},
    {"op": "linear", "inputs": ["u", "table"], "output": "v"},
    {"op": "linear", "inputs": ["v", "b"], "output": "w"},
    {"op": "linear", "inputs": ["w", "table"], "output": "y", "stage": 1},
    {"op": "linear", "inputs": ["y", "c"], "output": "z", "stage": 1},
    {"op": "mean_square", "inputs": ["z"], "output": "loss", "stage": 1}
  ],
  "loss": "loss",
  "gradient_sync": )json" +
         sync + "}";
}

TEST(Buckets, AloneHoldWhatSeveralStagesShard) {
  EXPECT_EQ(sent(tied(R"({"kind": "zero1"})")), (Lines{"reduce_scatter b", "reduce_scatter table",
                                                       "reduce_scatter a", "all_reduce table"}));
  EXPECT_EQ(sent(tied(R"({"kind": "zero1"})"), Phase::step),
            (Lines{"all_gather b", "all_gather table", "all_gather a"}));
  EXPECT_EQ(sent(tied(R"({"kind": "zero1", "close": "before"})")),
            (Lines{"reduce_scatter b+a", "reduce_scatter table", "all_reduce table"}));
}

TEST(Buckets, HoldWhatSeveralStagesShareWhereItIsWholeOrSummedBefore) {
  EXPECT_EQ(sent(tied(R"({"kind": "zero1", "tied": "first"})")),
            (Lines{"all_reduce table", "reduce_scatter b+table+a"}));
  EXPECT_EQ(sent(tied(R"({"kind": "zero1", "gradients": "whole"})")),
            (Lines{"all_reduce b+table+a", "all_reduce table"}));
  EXPECT_EQ(sent(tied(R"({"kind": "bucketed"})")),
            (Lines{"all_reduce b+table+a", "all_reduce table"}));
}

// Four stages on two ranks; rank 0 has w0 and w2.
std::string chunks(const std::string& sync) {
  std::string tensors, ops, in = "x";
  for (int s = 0; s < 4; ++s) {
    tensors += fmt::format(R"(, "w{}": {{"shape": [8, 8], "parameter": true}})", s);
    ops += fmt::format(R"({{"op": "linear", "inputs": ["{0}", "w{1}"], "output": "h{1}",
                            "stage": {1}}},)",
                       in, s);
    in = fmt::format("h{}", s);
  }
  return R"json({
  "schema": "shape2trace.model/1",
  "mesh": {"axes": [{"name": "dp", "size": 2, "kind": "data"},
                    {"name": "pp", "size": 2, "kind": "pipeline"}]},
  "batch": {"local": 4, "axes": ["dp"]},
  "microbatches": 2,
  "pipeline": {"schedule": "interleaved", "chunks": 2},
  "tensors": {"x": {"shape": ["batch", 8]})json" +
         tensors + R"json(},
  "ops": [)json" +
         ops + R"json({"op": "mean_square", "inputs": ["h3"], "output": "loss", "stage": 3}],
  "loss": "loss",
  "gradient_sync": )json" +
         sync + "}";
}

TEST(Buckets, BehindTheBackwardGoChunkByChunk) {
  const std::vector<std::string> kinds{R"({"kind": "zero1"})",
                                       R"({"kind": "zero1", "close": "before"})",
                                       R"({"kind": "zero1", "bucket_bytes": 1})"};
  for (const std::string& sync : kinds) {
    EXPECT_EQ(sent(chunks(sync)), (Lines{"reduce_scatter w0", "reduce_scatter w2"})) << sync;
    EXPECT_EQ(sent(chunks(sync), Phase::step), (Lines{"all_gather w0", "all_gather w2"})) << sync;
  }
  const std::string whole = R"({"kind": "zero1", "gradients": "whole", "update_alignment": 2})";
  EXPECT_EQ(sent(chunks(whole)), (Lines{"all_reduce w0", "all_reduce w2"}));
  EXPECT_EQ(sent(chunks(whole), Phase::step), (Lines{"all_gather w0", "all_gather w2"}));
  EXPECT_EQ(sent(chunks(R"({"kind": "bucketed"})")), (Lines{"all_reduce w2", "all_reduce w0"}));
}

}  // namespace
}  // namespace s2t
