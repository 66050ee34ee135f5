// What a model can only get wrong once shapes and layouts are inferred, with its exact message.
#include <gtest/gtest.h>

#include "analyzer/analyze.h"
#include "tests/analyzer/io/edited_model.h"

namespace s2t {
namespace {

constexpr std::string_view kMoe = R"json({
    "schema": "shape2trace.model/1",
    "mesh": {"axes": [{"name": "ep", "size": 2, "kind": "data"}]},
    "batch": {"local": 64, "axes": ["ep"]},
    "tensors": {
      "x": {"shape": ["batch", 8]},
      "route": {"shape": ["batch", 2]},
      "w": {"shape": [2, 8, 8], "parameter": true, "layout": {"ep": "S(0)"}}
    },
    "ops": [
      {"op": "moe_dispatch", "inputs": ["x", "route"], "output": "b", "routing": "r"},
      {"op": "moe_expert", "inputs": ["b", "w"], "output": "e"},
      {"op": "moe_combine", "inputs": ["e", "route"], "output": "y", "routing": "r"},
      {"op": "mean", "inputs": ["y"], "output": "l"}
    ],
    "loss": "l",
    "routing": {"r": {"axis": "ep", "experts": 2, "counts": [[56, 8]]}}
  })json";

// All messages of analyzing `text` as edited, one per line; "" if it is fine.
std::string found(std::string_view text, const std::vector<Edit>& edits) {
  const std::string whole = edited(text, edits);
  EXPECT_EQ(complaints(whole), "");  // the reader has nothing to say
  try {
    analyze(parse_model(whole, "m.json"));
    return "";
  } catch (const UserError& e) {
    return e.what();
  }
}

TEST(Mistakes, ThereAreNoneInThePlainModels) {
  EXPECT_EQ(found(kMlp, {}), "");
  EXPECT_EQ(found(kPipe, {{"\"output\": \"y\", \"stage\": 1}",
                           "\"output\": \"y\", \"stage\": 1}, {\"op\": \"mean\", \"inputs\": "
                           "[\"y\"], \"output\": \"l\", \"stage\": 1}"},
                          {"\"ops\"", "\"loss\": \"l\", \"ops\""}}),
            "");
}

TEST(Mistakes, AxisThatDoesNotDivideADim) {
  const Edit three{R"json("name": "tp", "size": 2)json", R"json("name": "tp", "size": 3)json"};
  EXPECT_EQ(found(kMlp, {three}),
            "m.json: /tensors/w1/layout/tp: axis \"tp\" (size 3) does not divide dim 0 (size "
            "1024); expected a multiple of 3. Pad the dim, change the axis, or say \"uneven\": "
            "\"ceil\". [indivisible]\nm.json: /tensors/w2/layout/tp: axis \"tp\" (size 3) does not "
            "divide dim 1 (size 1024); expected a multiple of 3. Pad the dim, change the axis, or "
            "say \"uneven\": \"ceil\". [indivisible]");
  EXPECT_EQ(found(kMlp, {three,
                         {R"json("layout": {"tp": "S(0)"})json",
                          R"json("layout": {"tp": "S(0)"}, "uneven": "ceil")json"},
                         {R"json("layout": {"tp": "S(1)"})json",
                          R"json("layout": {"tp": "S(1)"}, "uneven": "ceil")json"}}),
            "");
}

TEST(Mistakes, AxisThatDoesNotDivideWhatAnOpMakes) {
  EXPECT_EQ(
      found(
          kMlp,
          {{"[1024, 512]", "[1536, 512]"},
           {"[512, 1024]", "[512, 1536]"},
           {R"json({"op": "gelu", "inputs": ["h"], "output": "a"})json",
            R"json({"op": "gelu", "inputs": ["h"], "output": "a"}, {"op": "reshape", "inputs": ["a"], "output": "c", "rule": "x[s (n d)] -> y[s n d]", "sizes": {"n": 3}})json"}}),
      "m.json: /ops/2: axis \"tp\" (size 2) does not divide dim 1 (size 3); expected a multiple of "
      "2. Pad the dim, change the axis, or say \"uneven\": \"ceil\". [indivisible]");
}

TEST(Mistakes, PartialIntoANonlinearOpWhereRedistributionIsExplicit) {
  EXPECT_EQ(
      found(kMlp, {{R"json("loss": "loss")json",
                    R"json("loss": "loss", "switches": {"redistribution": "explicit"})json"}}),
      "m.json: /ops/3 (mean_square): input \"y\" is Partial over \"tp\", mean_square is not linear "
      "in it, and redistribution is explicit here; expected a reduced value. Put a redistribute op "
      "before input 0. [partial-nonlinear]");
}

TEST(Mistakes, RoutingOfOtherExperts) {
  EXPECT_EQ(found(kMoe, {{"\"experts\": 2", "\"experts\": 4"}, {"[[56, 8]]", "[[56, 4, 2, 2]]"}}),
            "m.json: /routing/r/experts: 4 experts, but the tensors of \"b\" have 2; expected 2. "
            "[shape-mismatch]");
  EXPECT_EQ(
      found(kMoe, {{"[{\"name\": \"ep\"", "[{\"name\": \"dp\", \"size\": 2}, {\"name\": \"ep\""},
                   {"{\"axis\": \"ep\"", "{\"axis\": \"dp\""}}),
      "m.json: /routing/r/axis: rows are routed over dp, but the experts of \"e\" are split "
      "over ep; expected the axis of the experts, \"ep\". [routing-axis]");
}

TEST(Mistakes, RoutingRowsThatDoNotSumToTheTokens) {
  EXPECT_EQ(found(kMoe, {}), "");
  EXPECT_EQ(
      found(kMoe, {{"[[56, 8]]", "[[56, 9]]"}}),
      "m.json: /routing/r/counts/0: the counts of source 0 sum to 65 rows; expected 64 (tokens "
      "x top_k). Each source rank holds 64 tokens. [routing-rows]");
  EXPECT_EQ(
      found(kMoe, {{"[[56, 8]]", "[[56, 8], [1, 2]]"}}),
      "m.json: /routing/r/counts/1: the counts of source 1 sum to 3 rows; expected 64 (tokens "
      "x top_k). Each source rank holds 64 tokens. [routing-rows]");
}

TEST(Mistakes, ShapesThatDoNotFitTheRule) {
  EXPECT_EQ(found(kMlp, {{"[1024, 512]", "[1024, 511]"}}),
            "m.json: /ops/0: the shapes do not fit linear: dim 1 of operand w has size 511, but "
            "factor k says 512. The rule is \"x[* k] w[n k] -> y[* n]\". [shape-mismatch]");
  EXPECT_EQ(found(kMlp, {{"[512, 1024]", "[512, 1024, 1]"}}),
            "m.json: /ops/2: the shapes do not fit linear: operand w has 3 dims, the rule wants 2. "
            "The rule is \"x[* k] w[n k] -> y[* n]\". [shape-mismatch]");
  EXPECT_EQ(found(kMlp, {{R"json("inputs": ["h"])json", R"json("inputs": ["h", "h"])json"}}),
            "m.json: /ops/1/inputs: 2 inputs for gelu; expected 1 (x). [operand-count]");
  EXPECT_EQ(found(kMlp, {{R"json("output": "a")json", R"json("outputs": ["a", "b"])json"}}),
            "m.json: /ops/1: the shapes do not fit gelu: 2 outputs given, gelu has 1. The rule is "
            "\"x[*] -> y[*]\". [shape-mismatch]");
  EXPECT_EQ(found(kMlp, {{R"json("x": {)json", R"json("h": {"shape": ["batch", 9]}, "x": {)json"}}),
            "m.json: /tensors/h/shape: \"h\" is stated as [64, 9]; expected [64, 1024], as its op "
            "computes it. [shape-mismatch]");
  EXPECT_EQ(found(kMlp, {{R"json("loss": "loss")json", R"json("loss": "y")json"}}),
            "m.json: /loss: \"y\" has shape [64, 512]; expected a scalar. End with a loss op such "
            "as mean_square or cross_entropy. [loss-shape]");
}

TEST(Mistakes, ElementTypesThatDoNotFit) {
  EXPECT_EQ(found(kMlp, {{R"json("shape": ["batch", 512])json",
                          R"json("shape": ["batch", 512], "dtype": "i64")json"}}),
            "m.json: /ops/0/inputs/0: \"x\" is int64; expected a floating-point tensor. "
            "[dtype-mismatch]");
}

TEST(Mistakes, ModeThatTheOpDoesNotHave) {
  EXPECT_EQ(
      found(kMlp, {{R"json("output": "a")json",
                    R"json("output": "a", "modes": {"tp": "linear", "dp": "split(q)"})json"}}),
      "m.json: /ops/1/modes/dp: \"split(q)\" is no mode of gelu; expected \"redundant\", "
      "\"split(*0)\", \"split(*1)\". The rule is \"x[*] -> y[*]\". [bad-mode]\nm.json: "
      "/ops/1/modes/tp: \"linear\" is no mode of gelu; expected \"redundant\", \"split(*0)\", "
      "\"split(*1)\". The rule is \"x[*] -> y[*]\". [bad-mode]");
}

TEST(Mistakes, LayoutOfADimThatAResultLacks) {
  EXPECT_EQ(found(kMlp, {{R"json("loss": "loss")json",
                          R"json("loss": "loss", "pins": {"y": {"tp": "S(2)"}})json"}}),
            "m.json: /pins/y/tp: S(2) names dim 2 of a tensor with 2 dims; expected a dim from 0 "
            "to 1. [bad-placement]");
}

TEST(Mistakes, ElementTypesThatDiffer) {
  EXPECT_EQ(
      found(kMlp, {{R"json("w1": {"shape")json", R"json("w1": {"dtype": "bf16", "shape")json"}}),
      "m.json: /ops/0/inputs/1: \"w1\" is bfloat16 and \"x\" is float32; expected one "
      "element type. Put a \"cast\" op before one of them. [dtype-mismatch]");
}

TEST(Mistakes, LayoutThatDoesNotSplitTheBatch) {
  EXPECT_EQ(found(kMlp, {{R"json("x": {"shape": ["batch", 512])json",
                          R"json("x": {"shape": ["batch", 512], "layout": {"dp": "R"})json"}}),
            "m.json: /tensors/x/layout: R over \"dp\", which splits the batch; expected S(0). "
            "Dims of \"batch\" are split over the axes of \"batch\" by themselves. "
            "[batch-layout]");
}

TEST(Mistakes, MaximumTakenForASum) {
  EXPECT_EQ(
      found(
          kMlp,
          {{R"json("x": {"shape": ["batch", 512]})json",
            R"json("x": {"shape": ["batch", 512], "layout": {"tp": "P(max)"}})json"},
           {R"json({"op": "gelu", "inputs": ["h"], "output": "a"})json",
            R"json({"op": "gelu", "inputs": ["h"], "output": "a"}, {"op": "redistribute", "inputs": ["x"], "output": "z", "layout": {"tp": "P"}})json"}}),
      "m.json: /ops/2 (redistribute): input \"x\" is P(max) but is wanted as P over \"tp\"; "
      "expected one kind of Partial. Reduce it first: ask for \"R\" or \"S(dim)\". "
      "[mixed-partial]");
}

TEST(Mistakes, BytesBeyond64Bits) {
  EXPECT_EQ(
      found(kMlp, {{"[\"batch\", 512]", "[1099511627776, 1048576]"},
                   {"[1024, 512]", "[1099511627776, 1048576]"}}),
      "m.json: /ops/0: the bytes of \"h\" do not fit in 64 bits; expected a smaller shape. "
      "[too-many-bytes]\nm.json: /ops/1: the bytes of \"a\" do not fit in 64 bits; expected a "
      "smaller shape. [too-many-bytes]\nm.json: /ops/2: the shapes do not fit linear: dim 1 of "
      "operand w has size 1024, but factor k says 1099511627776. The rule is \"x[* k] w[n k] "
      "-> y[* n]\". [shape-mismatch]");
  EXPECT_EQ(
      found(kMlp, {{"\"local\": 32", "\"local\": 4294967296"},
                   {"[\"batch\", 512]", "[\"batch\", 1048576, 1048576, 512]"}}),
      "m.json: /tensors/x: the bytes of \"x\" do not fit in 64 bits; expected a smaller "
      "shape. [too-many-bytes]\nm.json: /ops/0: the bytes of \"h\" do not fit in 64 bits; "
      "expected a smaller shape. [too-many-bytes]\nm.json: /ops/1: the bytes of \"a\" do not fit "
      "in 64 bits; expected a smaller shape. [too-many-bytes]\nm.json: /ops/2: the bytes of \"y\" "
      "do not fit in 64 bits; expected a smaller shape. [too-many-bytes]");
}

constexpr std::string_view kFlat = R"json({
    "schema": "shape2trace.model/1",
    "mesh": {"axes": [{"name": "a", "size": 4}, {"name": "b", "size": 2}]},
    "tensors": {"x": {"shape": [4, 8, 2]}},
    "ops": [
      {"op": "reshape", "inputs": ["x"], "output": "y", "rule": "x[b s d] -> y[(b s) d]",
       "modes": {"b": "redundant"}}
    ]
  })json";

TEST(Mistakes, PinThatWouldCutAFlattenedDimIntoStripes) {
  const Edit inside{R"json("b": "redundant")json", R"json("b": "split(s)")json"};
  EXPECT_EQ(found(kFlat, {inside}),
            "m.json: /ops/0/modes: \"split(s)\" cuts a dim of reshape inside factor b, so no rank "
            "would hold a block of it; expected \"split(b)\", or b cut down to 1 by slower axes. "
            "The rule is \"x[b s d] -> y[(b s) d]\". [bad-mode]");
  const Edit both{R"json("b": "redundant")json", R"json("a": "split(b)", "b": "split(s)")json"};
  EXPECT_EQ(found(kFlat, {both}), "");
}

constexpr std::string_view kVocabulary = R"json({
    "schema": "shape2trace.model/1",
    "mesh": {"axes": [{"name": "tp", "size": 2}]},
    "tensors": {"z": {"shape": [4, 8]}, "ids": {"shape": [4], "dtype": "i64"}},
    "ops": [{"op": "cross_entropy", "inputs": ["z", "ids"], "output": "l",
             "modes": {"tp": "split(v)"}}],
    "loss": "l"
  })json";

TEST(Mistakes, PinOfACompositeNamesOneOfItsOwnFactors) {
  EXPECT_EQ(found(kVocabulary, {}), "");
  EXPECT_EQ(found(kVocabulary, {{"split(v)", "split(w)"}}),
            "m.json: /ops/0/modes/tp: \"split(w)\" is no mode of cross_entropy; expected "
            "\"redundant\", \"split(*0)\", \"split(v)\". The rule is \"z[* v] ids[*] -> loss[]\". "
            "[bad-mode]");
}

constexpr std::string_view kRing = R"json({
    "schema": "shape2trace.model/1",
    "mesh": {"axes": [{"name": "cp", "size": 2, "kind": "data"}]},
    "tensors": {"q": {"shape": [2, 4, 8, 16]}, "k": {"shape": [2, 2, 8, 16]},
                "v": {"shape": [2, 2, 8, 16]}},
    "ops": [{"op": "attention", "inputs": ["q", "k", "v"], "output": "o", "causal": true,
             "modes": {"cp": "ring(s)"}}]
  })json";

TEST(Mistakes, RingThatIsNone) {
  EXPECT_EQ(found(kRing, {}), "");
  EXPECT_EQ(
      found(kRing, {{"ring(s)", "ring(t)"}}),
      "m.json: /ops/0/modes/cp: \"ring(t)\" is no mode of attention; expected \"redundant\", "
      "\"split(b)\", \"split(g)\", \"split(r)\", \"split(s)\", \"split(j)\", \"linear\", "
      "\"ring(s)\". The rule is \"q[b (g r) s h] k[b g t! h!] v[b g t! j] -> o[b (g r) s j]\". "
      "[bad-mode]");
  EXPECT_EQ(found(kRing, {{"[2, 4, 8, 16]", "[2, 4, 4, 16]"}}),
            "m.json: /ops/0/modes: a causal ring of 4 queries and 8 keys; expected as many keys as "
            "queries. [bad-mode]");
  EXPECT_NE(found(kRing, {{"\"size\": 2", "\"size\": 3"}}), "");
}

constexpr std::string_view kUneven = R"json({
    "schema": "shape2trace.model/1",
    "mesh": {"axes": [{"name": "t", "size": 4,
                       "parts": [{"name": "k", "size": 2}, {"name": "r", "size": 2}]}]},
    "tensors": {"x": {"shape": [6, 4], "uneven": "ceil", "layout": {"t": "S(0)"}}},
    "ops": [
      {"op": "redistribute", "inputs": ["x"], "output": "y", "layout": {"k": "R", "r": "R"}}
    ]
  })json";

TEST(Mistakes, UnevenBlocksOfAnAxisAreNoBlocksOfItsPart) {
  EXPECT_EQ(found(kUneven, {}), "");
  EXPECT_EQ(found(kUneven, {{R"json("k": "R")json", R"json("k": "S(0)")json"}}),
            "m.json: /ops/0: dim 0 of \"x\" (size 6) is cut over t, of which only a part changes; "
            "expected a multiple of 4. Pad the dim. [indivisible]");
}

TEST(Mistakes, UnevenBlocksOfAFactorAreNoBlocksOfItsDim) {
  const Edit reshape{
      R"json("op": "redistribute", "inputs": ["x"], "output": "y", "layout": {"k": "R", "r": "R"})json",
      R"json("op": "reshape", "inputs": ["x"], "output": "y", "rule": "x[(b s) d] -> y[b s d]", "sizes": {"b": 3})json"};
  EXPECT_EQ(
      found(kUneven, {reshape}),
      "m.json: /ops/0: 4 ways to cut factor b (size 3), which shares a dim; expected a multiple "
      "of 4. Uneven parts work along dims of one factor only; pad the dim. [indivisible]");
}

}  // namespace
}  // namespace s2t
