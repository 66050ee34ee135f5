// Models without a mistake of form that no framework runs, or that is not modelled: each is refused
// with a reason instead of a wrong number.
#include <gtest/gtest.h>

#include "analyzer/analyze.h"
#include "tests/analyzer/io/edited_model.h"

namespace s2t {
namespace {

std::string refusal(std::string_view text) {
  EXPECT_EQ(complaints(std::string(text)), "");  // the reader has nothing to say
  try {
    analyze(parse_model(std::string(text), "m.json"));
    return "";
  } catch (const UserError& e) {
    return e.what();
  }
}

TEST(RefusedModels, TwoDispatchesOfDifferentlyManyTokensByOneRouting) {
  EXPECT_EQ(refusal(R"json({
    "schema": "shape2trace.model/1",
    "mesh": {"axes": [{"name": "ep", "size": 2, "kind": "data"}]},
    "tensors": {
      "x": {"shape": [16, 4], "layout": {"ep": "S(0)"}},
      "route": {"shape": [16, 2], "layout": {"ep": "S(0)"}},
      "x2": {"shape": [64, 4], "layout": {"ep": "S(0)"}},
      "route2": {"shape": [64, 2], "layout": {"ep": "S(0)"}}
    },
    "ops": [
      {"op": "moe_dispatch", "inputs": ["x", "route"], "output": "rows", "routing": "r"},
      {"op": "moe_dispatch", "inputs": ["x2", "route2"], "output": "rows2", "routing": "r"}
    ],
    "routing": {"r": {"axis": "ep", "experts": 2}}
  })json"),
            "m.json: /ops/1/routing: \"rows2\" routes 32 tokens by \"r\", as \"rows\" does with 8; "
            "expected dispatches of equally many tokens. Give each its own row of \"routing\". "
            "[routing-rows]");
}

TEST(RefusedModels, ParameterWhoseGradientArrivesInTwoLayouts) {
  EXPECT_EQ(
      refusal(R"json({
    "schema": "shape2trace.model/1",
    "mesh": {"axes": [{"name": "dp", "size": 2, "kind": "data"}, {"name": "tp", "size": 2}]},
    "batch": {"local": 8, "axes": ["dp"]},
    "tensors": {"x": {"shape": ["batch", 8, 4]}, "w": {"shape": [4, 4], "parameter": true}},
    "ops": [
      {"op": "linear", "inputs": ["x", "w"], "output": "y"},
      {"op": "redistribute", "inputs": ["y"], "output": "s", "layout": {"tp": "S(1)"}},
      {"op": "linear", "inputs": ["s", "w"], "output": "z"},
      {"op": "mean_square", "inputs": ["z"], "output": "loss"}
    ],
    "loss": "loss",
    "gradient_sync": {"kind": "per_parameter"}
  })json"),
      "m.json: /tensors/w: the gradient of \"w\" arrives as dp:P tp:P from one op and as dp:P "
      "from another; expected one layout. Pin what these ops read so that they use the "
      "parameter alike. [two-gradient-layouts]");
}

TEST(RefusedModels, ParameterOfTwoChunksOfOnePipelineRank) {
  EXPECT_EQ(refusal(R"json({
    "schema": "shape2trace.model/1",
    "mesh": {"axes": [{"name": "pp", "size": 2, "kind": "pipeline"}]},
    "batch": {"local": 4, "axes": []},
    "microbatches": 2,
    "tensors": {
      "x": {"shape": ["batch", 4]},
      "w": {"shape": [4, 4], "parameter": true},
      "u": {"shape": [4, 4], "parameter": true}
    },
    "ops": [
      {"op": "linear", "inputs": ["x", "w"], "output": "a"},
      {"op": "linear", "inputs": ["a", "u"], "output": "b", "stage": 1},
      {"op": "linear", "inputs": ["b", "w"], "output": "c", "stage": 2},
      {"op": "gelu", "inputs": ["c"], "output": "d", "stage": 3},
      {"op": "mean_square", "inputs": ["d"], "output": "loss", "stage": 3}
    ],
    "loss": "loss",
    "pipeline": {"schedule": "interleaved", "chunks": 2}
  })json"),
            "m.json: /tensors/w: parameter \"w\" is used by stages 0 and 2, chunks of one pipeline "
            "rank; expected a parameter of one chunk. Give each chunk a parameter of its own. "
            "[shared-by-chunks]");
}

TEST(RefusedModels, RowsOfExpertsAcrossAStageBorder) {
  EXPECT_EQ(refusal(R"json({
    "schema": "shape2trace.model/1",
    "mesh": {"axes": [{"name": "pp", "size": 2, "kind": "pipeline"},
                      {"name": "ep", "size": 2, "kind": "data"}]},
    "batch": {"local": 16, "axes": ["ep"]},
    "tensors": {
      "x": {"shape": ["batch", 4]},
      "route": {"shape": ["batch", 2]}
    },
    "ops": [
      {"op": "moe_dispatch", "inputs": ["x", "route"], "output": "rows", "routing": "r"},
      {"op": "gelu", "inputs": ["rows"], "output": "g", "stage": 1}
    ],
    "routing": {"r": {"axis": "ep", "experts": 2}}
  })json"),
            "m.json: /ops/1: \"rows\", the rows of experts, crosses from stage 0 to 1; expected "
            "dispatch, experts and combine on one stage. [routed-border]");
}

// Tokens over dp, four experts; `x` is how they lie over tp, `ops` what becomes of the rows "b".
std::string of_rows(const std::string& x, const std::string& ops) {
  return refusal(R"json({
    "schema": "shape2trace.model/1",
    "mesh": {"axes": [{"name": "dp", "size": 2, "kind": "data"}, {"name": "tp", "size": 2}]},
    "batch": {"local": 4, "axes": ["dp"]},
    "tensors": {
      "x": {"shape": ["batch", 4], "layout": {)json" +
                 x + R"json(}},
      "wr": {"shape": [4, 4], "parameter": true},
      "columns": {"shape": [4, 4, 4], "parameter": true, "layout": {"dp": "S(0)", "tp": "S(1)"}},
      "inner": {"shape": [4, 4, 4], "parameter": true, "layout": {"dp": "S(0)", "tp": "S(2)"}}
    },
    "ops": [
      {"op": "moe_router", "inputs": ["x", "wr"], "output": "r"},
      )json" + ops +
                 R"json(
      {"op": "mean_square", "inputs": ["y"], "output": "loss"}
    ],
    "loss": "loss",
    "routing": {"t": {"axis": "dp", "experts": 4}}
  })json");
}

constexpr const char* kSplitRows =
    "the rows of \"b\" are split over \"tp\", over which no tokens were when they were routed; "
    "expected rows split over \"dp\" only. A rank holds the rows that were routed to it, not a "
    "share: take dim 1 off \"tp\", or shard the tokens over it before their dispatch. "
    "[routed-rows]";

TEST(RefusedModels, RoutedRowsThatAPinSplitsOverAnAxisOfNoTokens) {
  const auto of = [](const std::string& layout) {
    return of_rows("", R"json(
      {"op": "moe_dispatch", "inputs": ["x", "r"], "output": "a", "routing": "t"},
      {"op": "redistribute", "inputs": ["a"], "output": "b", "layout": {"tp": ")json" +
                           layout + R"json("}},
      {"op": "moe_expert", "inputs": ["b", "columns"], "output": "h"},
      {"op": "redistribute", "inputs": ["h"], "output": "g", "layout": {"tp": "R"}},
      {"op": "moe_combine", "inputs": ["g", "r"], "output": "y", "routing": "t"},)json");
  };
  EXPECT_EQ(of("S(1)"), std::string("m.json: /ops/2: ") + kSplitRows);
  EXPECT_EQ(of("R"), "");
}

TEST(RefusedModels, RoutedRowsThatAModeLeavesPartialAndTheCombineSplits) {
  const auto of = [](const std::string& modes) {
    return of_rows(R"json("tp": "S(0)")json", R"json(
      {"op": "moe_dispatch", "inputs": ["x", "r"], "output": "b", "routing": "t")json" +
                                                  modes + R"json(},
      {"op": "moe_combine", "inputs": ["b", "r"], "output": "y", "routing": "t"},)json");
  };
  EXPECT_EQ(of(R"json(, "modes": {"tp": "linear"})json"),
            std::string("m.json: /ops/2: ") + kSplitRows);
  EXPECT_EQ(of(""), "");
}

TEST(RefusedModels, RoutedRowsThatBecomeColumnsOfTheirExperts) {
  const auto of = [](const std::string& gather) {
    return of_rows(R"json("tp": "S(0)")json", R"json(
      {"op": "moe_dispatch", "inputs": ["x", "r"], "output": "a", "routing": "t"},
      {"op": "redistribute", "inputs": ["a"], "output": "b", "layout": {)json" +
                                                  gather + R"json(}},
      {"op": "moe_expert", "inputs": ["b", "inner"], "output": "h"},
      {"op": "moe_combine", "inputs": ["h", "r"], "output": "y", "routing": "t"},)json");
  };
  EXPECT_EQ(
      of(R"json("dp": "S(0)")json"),
      "m.json: /ops/3: the rows of \"b\" go from dp:S(0) tp:S(1) to dp:S(0) tp:S(2) by an "
      "all-to-all over \"tp\"; expected an all-to-all of rows for experts, over \"dp\". Put a "
      "redistribute op with layout {\"tp\": \"R\"} before it. [routed-rows]");
  EXPECT_EQ(of(R"json("dp": "S(0)", "tp": "R")json"), "");
}

TEST(RefusedModels, RowsOfExpertsThatAreGatheredInsteadOfSentBack) {
  EXPECT_EQ(
      of_rows(R"json("tp": "S(0)")json", R"json(
      {"op": "moe_dispatch", "inputs": ["x", "r"], "output": "a", "routing": "t"},
      {"op": "redistribute", "inputs": ["a"], "output": "b", "layout": {"dp": "S(0)"}},
      {"op": "redistribute", "inputs": ["b"], "output": "c", "layout": {"dp": "R"}},
      {"op": "moe_combine", "inputs": ["c", "r"], "output": "y", "routing": "t"},)json"),
      "m.json: /ops/3: the rows of \"b\" go from dp:S(0) tp:S(1) to tp:S(1); expected an "
      "all-to-all of rows for experts, over \"dp\". Leave dim 0 or dim 1 sharded over \"dp\" all "
      "the way. [routed-rows]");
}

TEST(RefusedModels, RowsOfTokensThatAreGatheredInsteadOfExchanged) {
  EXPECT_EQ(
      of_rows(R"json("tp": "S(0)")json", R"json(
      {"op": "moe_dispatch", "inputs": ["x", "r"], "output": "a", "routing": "t"},
      {"op": "redistribute", "inputs": ["a"], "output": "b", "layout": {"dp": "R"}},
      {"op": "moe_combine", "inputs": ["b", "r"], "output": "y", "routing": "t"},)json"),
      "m.json: /ops/2: the rows of \"a\" go from dp:S(1) tp:S(1) to tp:S(1); expected an "
      "all-to-all of rows for experts, over \"dp\". Leave dim 0 or dim 1 sharded over \"dp\" all "
      "the way. [routed-rows]");
}

TEST(RefusedModels, RowsThatAreGatheredOverASlowerAxisBeforeTheirExchange) {
  EXPECT_EQ(refusal(R"json({
    "schema": "shape2trace.model/1",
    "mesh": {"axes": [{"name": "dp", "size": 2, "kind": "data"}, {"name": "ep", "size": 2}]},
    "batch": {"local": 4, "axes": ["dp"]},
    "tensors": {"x": {"shape": ["batch", 4], "layout": {"ep": "S(0)"}},
                "r": {"shape": ["batch", 4], "layout": {"ep": "S(0)"}}},
    "ops": [
      {"op": "moe_dispatch", "inputs": ["x", "r"], "output": "a", "routing": "t"},
      {"op": "redistribute", "inputs": ["a"], "output": "b", "layout": {"dp": "R"}},
      {"op": "moe_combine", "inputs": ["b", "r"], "output": "y", "routing": "t"}
    ],
    "routing": {"t": {"axis": "ep", "experts": 4}}
  })json"),
            "m.json: /ops/1: the rows of \"a\" go from dp:S(1) ep:S(1) to ep:S(1); expected rows "
            "that stay blocks of \"ep\" within \"dp\". Exchange the rows over \"ep\" first. "
            "[routed-rows]");
}

TEST(RefusedModels, ColumnsOfExpertsThatAreCombinedBeforeTheyAreWhole) {
  const auto of = [](const std::string& layout) {
    return of_rows(R"json("tp": "S(0)")json", R"json(
      {"op": "moe_dispatch", "inputs": ["x", "r"], "output": "b", "routing": "t"},
      {"op": "moe_expert", "inputs": ["b", "columns"], "output": "h"},
      {"op": "redistribute", "inputs": ["h"], "output": "g", "layout": {)json" +
                                                  layout + R"json(}},
      {"op": "moe_combine", "inputs": ["g", "r"], "output": "y", "routing": "t"},)json");
  };
  EXPECT_EQ(
      of(R"json("tp": "S(2)")json"),
      "m.json: /ops/4: the rows of \"g\" go from dp:S(0) tp:S(2) to dp:S(1) tp:S(2) while they "
      "are gathered over \"tp\"; expected an all-to-all of rows for experts, over \"dp\". Put a "
      "redistribute op with layout {\"tp\": \"R\"} before it. [routed-rows]");
  EXPECT_EQ(of(R"json("tp": "R")json"), "");
}

// Two pipeline ranks read `w`; `rest` says what becomes of it.
std::string of_tied(const std::string& rest) {
  return refusal(R"json({
    "schema": "shape2trace.model/1",
    "mesh": {"axes": [{"name": "pp", "size": 2, "kind": "pipeline"},
                      {"name": "dp", "size": 2, "kind": "data"}]},
    "batch": {"local": 4, "axes": ["dp"]},
    "tensors": {"x": {"shape": ["batch", 4]}, "w": {"shape": [4, 4], "parameter": true}},
    "ops": [
      {"op": "linear", "inputs": ["x", "w"], "output": "a"},
      {"op": "linear", "inputs": ["a", "w"], "output": "b", "stage": 1},
      )json" + rest);
}

// Two linears on two stages.
std::string of_pipeline(const std::string& sync, int microbatches) {
  return refusal(R"json({
    "schema": "shape2trace.model/1",
    "mesh": {"axes": [{"name": "pp", "size": 2, "kind": "pipeline"},
                      {"name": "dp", "size": 2, "kind": "data"}]},
    "batch": {"local": 4, "axes": ["dp"]},
    "tensors": {"x": {"shape": ["batch", 4]}, "v": {"shape": [4, 4], "parameter": true},
                "w": {"shape": [4, 4], "parameter": true}},
    "ops": [
      {"op": "linear", "inputs": ["x", "v"], "output": "a"},
      {"op": "linear", "inputs": ["a", "w"], "output": "b", "stage": 1},
      {"op": "mean_square", "inputs": ["b"], "output": "loss", "stage": 1}
    ],
    "loss": "loss",
    "gradient_sync": {"kind": "fsdp")json" +
                 sync + "}, \"microbatches\": " + std::to_string(microbatches) + "}");
}

TEST(RefusedModels, RootOfFullyShardedStagesThatIsKeptForOneBackward) {
  const std::string complaint =
      "m.json: /gradient_sync: \"w\" of no unit, in a pipeline: the root, which is kept after the "
      "forward, is resharded after the backward of each microbatch; expected a unit for every "
      "parameter. Or keep them: \"reshard_after_forward\" and \"reshard_after_backward\" false. "
      "[resharding]";
  EXPECT_EQ(of_pipeline(R"(, "units": [["v"]])", 2), complaint);
  EXPECT_EQ(of_pipeline(R"(, "units": [["v"]])", 1), "");
  EXPECT_EQ(of_pipeline(R"(, "units": [["v"], ["w"]])", 2), "");
  EXPECT_EQ(of_pipeline(R"(, "reshard_after_forward": false, "reshard_after_backward": false)", 2),
            "");
}

TEST(RefusedModels, TiedParameterUnderFsdp) {
  EXPECT_EQ(
      of_tied(R"json({"op": "mean_square", "inputs": ["b"], "output": "loss", "stage": 1}
    ],
    "loss": "loss",
    "gradient_sync": {"kind": "fsdp", "units": [["w"]]}
  })json"),
      "m.json: /tensors/w: parameter \"w\" is used on several pipeline ranks, and fsdp shards "
      "it on each; expected a parameter of one pipeline rank. Give each stage a parameter of "
      "its own. [tied-fsdp]");
}

TEST(RefusedModels, TiedParameterThatOneStageUsesInVainUnderZero) {
  EXPECT_EQ(of_tied(R"json({"op": "mean_square", "inputs": ["a"], "output": "loss", "stage": 1}
    ],
    "loss": "loss",
    "gradient_sync": {"kind": "zero1"}
  })json"),
            "m.json: /tensors/w: 2 pipeline ranks hold parameter \"w\" and 1 of them has a "
            "gradient of it, "
            "which sharded synchronisation would leave in parts; expected a gradient on each of "
            "them. Let "
            "the loss depend on every use, or take \"bucketed\". [tied-unused]");
}

TEST(RefusedModels, TiedParameterThatIsSummedFirstButReducedInTheBackward) {
  const auto with = [](const std::string& sync) {
    return of_tied(R"json({"op": "mean_square", "inputs": ["b"], "output": "loss", "stage": 1}
    ],
    "loss": "loss",
    "gradient_sync": {"tied": "first", "kind": )json" +
                   sync + "}}");
  };
  const std::string found = "m.json: /gradient_sync/tied: \"first\", but ",
                    expected =
                        " has gradients reduced in the backward already; expected \"last\". ",
                    later = "Or reduce behind the backward: \"overlap\": false. [tied-first]",
                    once =
                        "Or reduce once, behind the backward: \"every\": \"step\", \"overlap\": "
                        "false. [tied-first]";
  EXPECT_EQ(with(R"("bucketed")"), found + "\"overlap\": true, by default," + expected + later);
  EXPECT_EQ(with(R"("zero1", "overlap": true)"), found + "\"overlap\": true" + expected + later);
  EXPECT_EQ(with(R"("per_parameter", "every": "microbatch")"),
            found + "\"every\": \"microbatch\"" + expected + once);
  EXPECT_EQ(with(R"("zero2")"), found + "\"every\": \"microbatch\", by default," + expected + once);
  EXPECT_EQ(with(R"("bucketed", "overlap": false)"), "");
  EXPECT_EQ(with(R"("zero1")"), "");
}

}  // namespace
}  // namespace s2t
