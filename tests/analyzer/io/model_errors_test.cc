// Every mistake that a model file can hold, with its exact message.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/analyzer/io/edited_model.h"

namespace s2t {
namespace {

struct Mistake {
  std::string from, to;  // one edit of the base text
  std::string message;   // all lines
};

std::ostream& operator<<(std::ostream& out, const Mistake& m) {
  return out << m.to;
}

std::string with_file(const std::string& message) {
  std::istringstream lines(message);
  std::string all, line;
  while (std::getline(lines, line)) all += (all.empty() ? "" : "\n") + ("m.json: " + line);
  return all;
}

class InMlp : public testing::TestWithParam<Mistake> {};
class InPipe : public testing::TestWithParam<Mistake> {};

TEST_P(InMlp, IsReported) {
  const Mistake& m = GetParam();
  EXPECT_EQ(complaints(edited(kMlp, {{m.from, m.to}})), with_file(m.message));
}

TEST_P(InPipe, IsReported) {
  const Mistake& m = GetParam();
  EXPECT_EQ(complaints(edited(kPipe, {{m.from, m.to}})), with_file(m.message));
}

const std::string kLoss = R"json("loss": "loss")json";            // the last key
const std::string kTp = R"json({"name": "tp", "size": 2}])json";  // the last axis
const std::string kW1 = R"json("layout": {"tp": "S(0)"})json";

std::string partial_w1(const std::string& axis, const std::string& placement) {
  return "/tensors/w1/layout/" + axis + ": parameter \"w1\" stored as " + placement +
         "; expected \"R\" or \"S(dim)\". Partial is what an op leaves to be reduced. "
         "[partial-parameter]";
}

INSTANTIATE_TEST_SUITE_P(
    Unknown, InMlp,
    testing::Values(
        Mistake{R"json("x", "w1")json", R"json("x", "w_1")json",
                "/ops/0/inputs/1: no tensor named \"w_1\"; expected one known before op 0 (\"x\", "
                "\"w1\", \"w2\"). Did you mean \"w1\"? [unknown-tensor]"},
        Mistake{R"json("inputs": ["h"])json", R"json("inputs": ["hh"])json",
                "/ops/1/inputs/0: no tensor named \"hh\"; expected one known before op 1 (\"h\", "
                "\"x\", \"w1\", \"w2\"). Did you mean \"h\"? [unknown-tensor]"},
        Mistake{R"json({"tp": "S(0)"})json", R"json({"tq": "S(0)"})json",
                "/tensors/w1/layout/tq: unknown axis \"tq\"; expected one of \"dp\", \"tp\". Did "
                "you mean \"tp\"? [unknown-axis]"},
        Mistake{R"json("op": "gelu")json", R"json("op": "gellu")json",
                "/ops/1/op: unknown op \"gellu\"; expected one of \"linear\", \"matmul\", "
                "\"einsum\", \"bias_add\", \"add\", \"sub\", \"mul\", \"scale\" and 49 more. Did "
                "you mean \"gelu\"? [unknown-op]"},
        Mistake{R"json("op": "gelu")json", R"json("op": "gelu", "eps": 1)json",
                "/ops/1/eps: unknown key \"eps\"; expected one of \"op\", \"inputs\", \"output\", "
                "\"outputs\", \"name\", \"stage\", \"module\", \"modes\". [unknown-key]"},
        Mistake{R"json("parameter")json", R"json("paramter")json",
                "/tensors/w1/paramter: unknown key \"paramter\"; expected one of \"shape\", "
                "\"dtype\", \"parameter\", \"requires_grad\", \"layout\", \"uneven\", "
                "\"residual\". Did you mean \"parameter\"? [unknown-key]"},
        Mistake{R"json("batch": {)json", R"json("bach": {)json",
                "/bach: unknown key \"bach\"; expected one of \"schema\", \"name\", \"mesh\", "
                "\"convention\", \"batch\", \"microbatches\", \"ops\", \"tensors\" and 7 more. Did "
                "you mean \"batch\"? [unknown-key]\na shape says \"batch\", but nothing says how "
                "large it is; expected \"batch\": {\"local\": ...} or \"batch\": {\"global\": "
                "...}. [missing-key]"},
        Mistake{kLoss, R"json("loss": "los")json",
                "/loss: no tensor named \"los\"; expected the output of an op (\"loss\", \"y\", "
                "\"a\", \"h\"). Did you mean \"loss\"? [unknown-tensor]"},
        Mistake{kLoss, R"json("loss": "x")json",
                "/loss: \"x\" is no op's output; expected the output of an op. [not-a-result]"},
        Mistake{kLoss, R"json("pins": {"yy": {"tp": "R"}})json",
                "/pins/yy: no tensor named \"yy\"; expected the output of an op (\"loss\", \"y\", "
                "\"a\", \"h\"). Did you mean \"y\"? [unknown-tensor]"},
        Mistake{kLoss, R"json("pins": {"x": {"tp": "R"}})json",
                "/pins/x: \"x\" is no op's output; expected the output of an op. State a leaf's "
                "layout in \"tensors\". [not-a-result]"},
        Mistake{kLoss, R"json("convention": "globl")json",
                "/convention: unknown convention \"globl\"; expected one of \"global\", "
                "\"per_rank\". Did you mean \"global\"? [unknown-convention]"},
        Mistake{kLoss, R"json("convention": {"dq": "global"})json",
                "/convention/dq: unknown axis \"dq\"; expected one of \"dp\", \"tp\". Did you mean "
                "\"dp\"? [unknown-axis]"},
        Mistake{kLoss, R"json("switches": {"partial": "lasy"})json",
                "/switches/partial: unknown partial \"lasy\"; expected one of \"eager\", \"lazy\". "
                "Did you mean \"lazy\"? [unknown-partial]"},
        Mistake{kLoss, R"json("switches": {"lazy": true})json",
                "/switches/lazy: unknown key \"lazy\"; expected one of \"conversions\", "
                "\"accumulate\", \"residual\", \"partial\", \"redistribution\", "
                "\"fused_column_linear\", \"ring\", \"ring_launch\" and 1 more. [unknown-key]"},
        Mistake{kLoss,
                R"json("gradient_sync": {"kind": "fsdp", "units": [["w3"], ["w1"], ["w1"]]})json",
                "/gradient_sync/units/0: no parameter named \"w3\"; expected one of \"w1\", "
                "\"w2\". Did you mean \"w1\"? [unknown-tensor]\n/gradient_sync/units/2: \"w1\" "
                "stands in two units; expected it in one. [duplicate-name]"},
        Mistake{kLoss, R"json("gradient_sync": {"kind": "zero4"})json",
                "/gradient_sync/kind: unknown kind \"zero4\"; expected one of \"none\", "
                "\"per_parameter\", \"zero1\", \"bucketed\", \"zero2\", \"zero3\", \"fsdp\". Did "
                "you mean \"zero1\"? [unknown-kind]"},
        Mistake{kLoss,
                R"json("gradient_sync": {"kind": "fsdp", "reshard_after_backward": false})json",
                "/gradient_sync/reshard_after_backward: parameters that are kept after the "
                "backward, but not after the forward; expected \"reshard_after_forward\": false "
                "beside it. [missing-key]"},
        Mistake{kLoss, R"json("gradient_sync": {"kind": "zero1", "update_alignment": 2})json",
                "/gradient_sync/update_alignment: one gather of all parameters, but gradients "
                "scattered bucket by bucket; expected \"gradients\": \"whole\" beside it. "
                "[missing-key]"},
        Mistake{R"json(["dp"])json", R"json(["tp_"])json",
                "/batch/axes/0: unknown axis \"tp_\"; expected one of \"dp\", \"tp\". Did you mean "
                "\"tp\"? [unknown-axis]"},
        Mistake{
            "model/1", "model/2",
            "/schema: unknown schema \"shape2trace.model/2\"; expected \"shape2trace.model/1\". "
            "Did you mean \"shape2trace.model/1\"? [unknown-schema]"}));

INSTANTIATE_TEST_SUITE_P(
    Duplicate, InMlp,
    testing::Values(
        Mistake{R"json({"name": "tp")json", R"json({"name": "dp")json",
                "/mesh/axes/1/name: axis name \"dp\" stands twice; expected distinct names. "
                "[duplicate-name]"},
        Mistake{R"json("name": "fc2")json", R"json("name": "fc1")json",
                "/ops/2: op name \"fc1\" is already that of op 0; expected a new name. "
                "[duplicate-name]"},
        Mistake{R"json("output": "a")json", R"json("output": "h")json",
                "/ops/1: \"h\" is already the output of op 0 (\"fc1\"); expected a new name. "
                "[duplicate-name]"},
        Mistake{R"json("w2": {)json", R"json("w1": {)json",
                "/tensors/w1: key \"w1\" stands on line 8 and again on line 9; expected it once. "
                "Rename or remove one. [duplicate-key]"},
        Mistake{R"json(["dp"])json", R"json(["dp", "dp"])json",
                "/batch/axes/1: \"dp\" stands twice; expected every name once. [duplicate-name]"},
        Mistake{kLoss, R"json("tensors": {})json",
                "/tensors: key \"tensors\" stands on line 6 and again on line 17; expected it "
                "once. Rename or remove one. [duplicate-key]"}));

INSTANTIATE_TEST_SUITE_P(
    Mesh, InMlp,
    testing::Values(
        Mistake{R"json({"axes")json", R"json({"world": 8, "axes")json",
                "/mesh/world: 8 ranks; expected 4, the product of the axis sizes (2 x 2). "
                "[world-size]"},
        Mistake{R"json({"axes")json", R"json({"order": "tp-dp-pp", "axes")json",
                "/mesh/order: unknown axis \"pp\"; expected one of \"dp\", \"tp\". "
                "[unknown-axis]"},
        Mistake{R"json({"axes")json", R"json({"order": "tp", "axes")json",
                "/mesh/order: the order \"tp\"; expected every axis once: \"dp\", \"tp\". "
                "[axis-order]"},
        Mistake{R"json({"axes")json", R"json({"order": ["tp", "tp"], "axes")json",
                "/mesh/order: the order [\"tp\", \"tp\"]; expected every axis once: \"dp\", "
                "\"tp\". [axis-order]"},
        Mistake{R"json({"axes")json", R"json({"order": 3, "axes")json",
                "/mesh/order: the number 3; expected a string such as \"tp-pp-dp\" or an array of "
                "axis names. [wrong-type]"},
        Mistake{R"json({"axes")json", R"json({"group_order": ["tp", "ep"], "axes")json",
                "/mesh/group_order/1: unknown axis \"ep\"; expected one of \"dp\", \"tp\". "
                "[unknown-axis]"},
        Mistake{R"json("name": "tp")json", R"json("name": "t-p")json",
                "/mesh/axes/1/name: axis name \"t-p\"; expected letters, digits and \"_\" only. "
                "[bad-name]"},
        Mistake{kTp, R"json({"name": "tp", "size": 4, "parts": [{"name": "kv", "size": 3}]}])json",
                "/mesh/axes/1/parts: the parts multiply to 3 (3); expected 4, the size of axis "
                "\"tp\". [axis-parts]"},
        Mistake{kTp, R"json({"name": "tp", "size": 2, "kind": "modle"}])json",
                "/mesh/axes/1/kind: unknown kind \"modle\"; expected one of \"model\", \"data\", "
                "\"pipeline\". Did you mean \"model\"? [unknown-kind]"},
        Mistake{kTp,
                R"json({"name": "tp", "size": 2}], "expert_axes": [{"name": "ep", "size": 3}])json",
                "/mesh/expert_axes: the expert axes multiply to 3 ranks and the dense axes to 4; "
                "expected two factorisations of the same ranks that nest. [mesh-conflict]"},
        Mistake{
            kTp,
            R"json({"name": "tp", "size": 3}], "expert_axes": [{"name": "e", "size": 3}, {"name": "f", "size": 2}])json",
            "/mesh/expert_axes: axis \"tp\" (size 3) and expert axis \"f\" (size 2) do not nest: "
            "one ends at rank stride 3, the other at 2, and neither divides the other; expected "
            "two factorisations of the same ranks that nest. [mesh-conflict]"},
        Mistake{
            kTp,
            R"json({"name": "tp", "size": 2}], "expert_axes": [{"name": "tp", "size": 2}, {"name": "ep", "size": 2}])json",
            "/mesh/expert_axes/0/name: axis name \"tp\" stands twice; expected the same size, kind "
            "and place among the ranks as in \"axes\". [duplicate-name]"},
        Mistake{kTp, R"json({"name": "tp", "size": 16777216}])json",
                "/mesh/axes: the axis sizes multiply to more than 16,777,216 ranks; expected a "
                "smaller mesh. [too-many-ranks]"},
        Mistake{kTp, R"json({"name": "tp", "size": 2, "kind": "pipeline"}])json",
                "/tensors/w1/layout/tp: pipeline axis \"tp\" in a layout; expected a model or data "
                "axis. Stages place ops, layouts never do. [pipeline-axis]\n/tensors/w2/layout/tp: "
                "pipeline axis \"tp\" in a layout; expected a model or data axis. Stages place "
                "ops, layouts never do. [pipeline-axis]"}));

INSTANTIATE_TEST_SUITE_P(
    Numbers, InMlp,
    testing::Values(
        Mistake{R"json("size": 2, "kind")json", R"json("size": 0, "kind")json",
                "/mesh/axes/0/size: 0; expected an integer from 1 to 16,777,216. [out-of-range]"},
        Mistake{R"json("size": 2, "kind")json", R"json("size": -2, "kind")json",
                "/mesh/axes/0/size: -2; expected an integer from 1 to 16,777,216. [out-of-range]"},
        Mistake{
            R"json("size": 2, "kind")json", R"json("size": 1.5, "kind")json",
            "/mesh/axes/0/size: 1.5; expected an integer from 1 to 16,777,216. [not-an-integer]"},
        Mistake{R"json("size": 2, "kind")json", R"json("size": "2", "kind")json",
                "/mesh/axes/0/size: the string \"2\"; expected an integer from 1 to 16,777,216. "
                "[wrong-type]"},
        Mistake{
            R"json("size": 2, "kind")json", R"json("size": 1e30, "kind")json",
            "/mesh/axes/0/size: 1e30; expected an integer from 1 to 16,777,216. [out-of-range]"},
        Mistake{R"json(["batch", 512])json", R"json(["batch", 0])json",
                "/tensors/x/shape/1: 0; expected an integer from 1 to 1,099,511,627,776. "
                "[out-of-range]"},
        Mistake{R"json(["batch", 512])json", R"json(["batch", 99999999999999999999])json",
                "/tensors/x/shape/1: 99999999999999999999; expected an integer from 1 to "
                "1,099,511,627,776. [out-of-range]"},
        Mistake{R"json(["batch", 512])json", R"json(["bacth", 512])json",
                "/tensors/x/shape/0: dim \"bacth\"; expected a positive integer or \"batch\". "
                "[wrong-type]"},
        Mistake{R"json(["batch", 512])json", R"json(["batch", "batch"])json",
                "/tensors/x/shape: \"batch\" 2 times; expected it once in a shape. [two-batches]"},
        Mistake{R"json(["batch", 512])json", R"json([1099511627776, 1099511627776])json",
                "/tensors/x/shape: a tensor of [1099511627776, 1099511627776] elements; expected "
                "one whose bytes fit in 64 bits. [too-many-bytes]"},
        Mistake{R"json(["batch", 512])json", R"json({"rows": 512})json",
                "/tensors/x/shape: the object {\"rows\": 512}; expected an array. [wrong-type]"},
        Mistake{R"json("local": 32)json", R"json("local": -1)json",
                "/batch/local: -1; expected an integer from 1 to 4,294,967,296. [out-of-range]"},
        Mistake{R"json("local": 32)json", R"json("local": 32, "global": 64)json",
                "/batch: both \"local\" and \"global\"; expected either \"local\" (samples per "
                "rank) or \"global\" (of all ranks together). [batch-size]"},
        Mistake{R"json("local": 32, )json", "",
                "/batch: a batch without a size; expected either \"local\" (samples per rank) or "
                "\"global\" (of all ranks together). [batch-size]"},
        Mistake{R"json("local": 32)json", R"json("global": 33)json",
                "/batch/global: 33 samples over 2 ranks (dp); expected a multiple of the ranks. "
                "[indivisible]"},
        Mistake{R"json(, "axes": ["dp"]})json", "}",
                "/batch: a mesh with data axes, but no \"axes\" here; expected the axes that the "
                "batch is split over, or []. [batch-axes]"},
        Mistake{kLoss, R"json("microbatches": 5)json",
                "/microbatches: 5 microbatches of 32 samples per rank; expected a number that "
                "divides the samples. [indivisible]"},
        Mistake{kLoss, R"json("microbatches": 0)json",
                "/microbatches: 0; expected an integer from 1 to 1,048,576. [out-of-range]"}));

INSTANTIATE_TEST_SUITE_P(
    Layouts, InMlp,
    testing::Values(
        Mistake{R"json("S(0)")json", R"json("S")json",
                "/tensors/w1/layout/tp: placement \"S\"; expected \"R\", \"S(dim)\", \"P\" or "
                "\"P(max)\". [bad-placement]"},
        Mistake{R"json("S(0)")json", R"json("S(2)")json",
                "/tensors/w1/layout/tp: placement \"S(2)\"; expected a dim from 0 to 1. "
                "[bad-placement]"},
        Mistake{R"json("S(0)")json", R"json("S(-1)")json",
                "/tensors/w1/layout/tp: placement \"S(-1)\"; expected \"R\", \"S(dim)\", \"P\" or "
                "\"P(max)\". [bad-placement]"},
        Mistake{R"json("S(0)")json", R"json("P(min)")json",
                "/tensors/w1/layout/tp: placement \"P(min)\"; expected \"R\", \"S(dim)\", \"P\" or "
                "\"P(max)\". [bad-placement]"},
        Mistake{R"json("S(0)")json", "0",
                "/tensors/w1/layout/tp: the number 0; expected a string. [wrong-type]"},
        Mistake{R"json({"tp": "S(0)"})json", R"json({"tp": "P", "dp": "P(max)"})json",
                "/tensors/w1/layout/dp: \"P(max)\" beside \"P\" over \"tp\"; expected one kind of "
                "Partial in one tensor. [mixed-partial]\n" +
                    partial_w1("tp", "P") + "\n" + partial_w1("dp", "P(max)")},
        Mistake{R"json("S(0)")json", R"json("P")json", partial_w1("tp", "P")},
        Mistake{kW1, R"json("layout": "S(0)")json",
                "/tensors/w1/layout: the string \"S(0)\"; expected an object. [wrong-type]"},
        Mistake{kW1, R"json("uneven": "floor")json",
                "/tensors/w1/uneven: unknown rounding \"floor\"; expected \"ceil\". "
                "[unknown-rounding]"},
        Mistake{kW1, R"json("residual": "kept")json",
                "/tensors/w1/residual: unknown residual policy \"kept\"; expected one of \"used\", "
                "\"stored\". [unknown-residual-policy]"},
        Mistake{
            kW1, R"json("dtype": "f31")json",
            "/tensors/w1/dtype: unknown dtype \"f31\"; expected one of \"f32\", \"f16\", \"bf16\", "
            "\"f64\", \"f8\", \"i64\", \"i32\", \"bool\". Did you mean \"f32\"? [unknown-dtype]"},
        Mistake{kW1, R"json("dtype": "i64", "requires_grad": true)json",
                "/tensors/w1/requires_grad: a gradient of int64 elements; expected a "
                "floating-point dtype. [integer-grad]"}));

INSTANTIATE_TEST_SUITE_P(
    Ops, InMlp,
    testing::Values(
        Mistake{R"json("inputs": ["h"])json", R"json("inputs": ["y"])json",
                "/ops/1/inputs/0: \"y\" needs itself: y -> a -> y; expected ops without a cycle. "
                "If an input is meant, give the op's output another name. [cycle]"},
        Mistake{R"json("inputs": ["h"])json", R"json("inputs": ["a"])json",
                "/ops/1/inputs/0: \"a\" needs itself: a -> a; expected ops without a cycle. If an "
                "input is meant, give the op's output another name. [cycle]"},
        Mistake{R"json("inputs": ["x", "w1"])json", R"json("inputs": ["loss2", "w1"])json",
                "/ops/0/inputs/0: no tensor named \"loss2\"; expected one known before op 0 "
                "(\"x\", \"w1\", \"w2\"). [unknown-tensor]"},
        Mistake{
            R"json({"op": "gelu", "inputs": ["h"], "output": "a"},)json",
            R"json({"op": "gelu", "inputs": ["k"], "output": "a"}, {"op": "gelu", "inputs": ["h"], "output": "k"},)json",
            "/ops/1/inputs/0: \"k\" is made only later, by op 2 (\"k\"); expected a tensor made "
            "before op 1. Move op 2 before op 1. [op-order]"},
        Mistake{
            R"json("output": "a")json", R"json("outputs": [])json",
            "/ops/1/outputs: an op without a result; expected at least one name. [missing-key]"},
        Mistake{R"json(, "output": "loss")json", "",
                "/ops/3: an op without a result; expected \"output\", or \"outputs\" for several. "
                "[missing-key]"},
        Mistake{R"json("output": "a")json", R"json("output": "a", "outputs": ["a"])json",
                "/ops/1/outputs: both \"output\" and \"outputs\"; expected one of the two. "
                "[two-outputs]"},
        Mistake{R"json("output": "a")json", R"json("output": "")json",
                "/ops/1/output: an empty string; expected a name. [empty-name]"},
        Mistake{R"json("inputs": ["h"])json", R"json("inputs": "h")json",
                "/ops/1/inputs: the string \"h\"; expected an array. [wrong-type]"},
        Mistake{R"json("output": "a")json", R"json("output": "a", "modes": {"tp": "splt(n)"})json",
                "/ops/1/modes/tp: mode \"splt(n)\"; expected \"redundant\", \"linear\", "
                "\"split(factor)\" or \"ring(factor)\". [bad-mode]"},
        Mistake{
            R"json("output": "a")json", R"json("output": "a", "stage": 1)json",
            "/ops/2/inputs/0: \"a\" comes from op 1 (\"a\") on stage 1, and this op is on stage 0; "
            "expected a stage that is not before its inputs'. [stage-backwards]\n/ops/1/stage: "
            "stage 1; expected stage 0, for there is no pipeline axis. [no-such-stage]"},
        Mistake{R"json("op": "gelu")json", R"json("op": "scale")json",
                "/ops/1: no key \"factor\"; expected it beside \"op\", \"inputs\", \"output\". "
                "[missing-key]"},
        Mistake{R"json("op": "gelu")json", R"json("op": "scale", "factor": "2")json",
                "/ops/1/factor: the string \"2\"; expected a number. [wrong-type]"},
        Mistake{R"json("op": "gelu")json", R"json("op": "reshape", "rule": "x[a -> y[a]")json",
                "/ops/1/rule: the rule \"x[a -> y[a]\" breaks at column 5: expected a factor, '*' "
                "or ']'. A rule looks like \"x[* k] w[n k] -> y[* n]\". [bad-rule]"},
        Mistake{R"json("op": "gelu")json", R"json("op": "moe_dispatch", "routing": "r")json",
                "/ops/1/routing: no routing named \"r\"; expected a \"routing\" section that has "
                "it. [unknown-routing]"},
        Mistake{R"json("w1": {"shape")json", R"json("a": {"parameter": true}, "w1": {"shape")json",
                "/tensors/a/parameter: \"parameter\" of \"a\", which an op produces; expected only "
                "\"shape\", \"layout\", \"residual\" and \"uneven\". The op decides the rest; if "
                "an input is meant, rename it or the op's output. [not-a-leaf]"},
        Mistake{R"json("w1": {"shape": [1024, 512],)json", R"json("w1": {)json",
                "/tensors/w1: no key \"shape\"; expected it beside \"parameter\", \"layout\". "
                "[missing-key]"},
        Mistake{kLoss, R"json("pins": {"a": {"tp": "R"}, "a": {"tp": "P"}})json",
                "/pins/a: key \"a\" stands on line 17 and again on line 17; expected it once. "
                "Rename or remove one. [duplicate-key]"}));

INSTANTIATE_TEST_SUITE_P(
    Routing, InMlp,
    testing::Values(
        Mistake{kLoss, R"json("routing": {"r": {"axis": "tp", "experts": 3}})json",
                "/routing/r/experts: 3 experts on axis \"tp\" (size 2); expected a multiple of the "
                "size. [indivisible]"},
        Mistake{kLoss, R"json("routing": {"r": {"axis": "tp", "experts": 2, "top_k": 3}})json",
                "/routing/r/top_k: 3; expected an integer from 1 to 2. [out-of-range]"},
        Mistake{kLoss,
                R"json("routing": {"r": {"axis": "tp", "experts": 2, "counts": [[1, 2, 3]]}})json",
                "/routing/r/counts/0: 3 counts; expected 2, one per expert. [routing-size]"},
        Mistake{
            kLoss,
            R"json("routing": {"r": {"axis": "tp", "experts": 2, "counts": [[1, 2], [1, 2], [1, 2]]}})json",
            "/routing/r/counts: 3 rows; expected 1, or 2: one per rank along \"tp\". "
            "[routing-size]"},
        Mistake{kLoss,
                R"json("routing": {"r": {"axis": "tp", "experts": 2, "counts": [[1, -2]]}})json",
                "/routing/r/counts/0/1: -2; expected an integer from 0 to 1,099,511,627,776. "
                "[out-of-range]"},
        Mistake{
            kLoss,
            R"json("routing": {"r": {"axis": "tp", "experts": 2, "counts": [[1, 2]], "skew": [1, 2]}})json",
            "/routing/r/skew: both \"counts\" and \"skew\"; expected one of the two, or neither "
            "for a balanced load. [two-loads]"},
        Mistake{kLoss, R"json("routing": {"r": {"axis": "tp", "experts": 2, "skew": [1]}})json",
                "/routing/r/skew: 1 loads; expected 2, one per expert. [routing-size]"},
        Mistake{kLoss, R"json("routing": {"r": {"axis": "tp", "experts": 2, "skew": [0, 0]}})json",
                "/routing/r/skew: no load at all; expected at least one that is positive. "
                "[out-of-range]"},
        Mistake{kLoss, R"json("routing": {"r": {"axis": "tp", "experts": 2, "skew": [-1, 2]}})json",
                "/routing/r/skew/0: -1; expected a load from 0 to 1e9. [out-of-range]"},
        Mistake{kLoss,
                R"json("routing": {"r": {"axis": "tp", "experts": 2, "capacity_factor": 0}})json",
                "/routing/r/capacity_factor: 0; expected a number above 0 and at most 1e6. "
                "[out-of-range]"},
        Mistake{
            kLoss,
            R"json("routing": {"r": {"axis": "tp", "experts": 2, "pad_to_capacity": true}})json",
            "/routing/r/pad_to_capacity: padding without a capacity; expected \"capacity_factor\" "
            "beside it. [missing-key]"}));

INSTANTIATE_TEST_SUITE_P(
    Training, InMlp,
    testing::Values(
        // A wrong kind does not hide a wrong name.
        Mistake{
            kTp,
            R"json({"name": "tp", "size": 2, "kind": "modl"}], "group_order": ["tp", "q"])json",
            "/mesh/axes/1/kind: unknown kind \"modl\"; expected one of \"model\", \"data\", "
            "\"pipeline\". Did you mean \"model\"? [unknown-kind]\n/mesh/group_order/1: unknown "
            "axis \"q\"; expected one of \"dp\", \"tp\". [unknown-axis]"},
        Mistake{kLoss, R"json("gradient_sync": {"kind": "per_parameter", "axes": []})json",
                "/gradient_sync/axes: no axis; expected at least one. Leave the key out for all "
                "data axes, or say \"kind\": \"none\". [sync-axes]"},
        Mistake{kLoss, R"json("convention": {"dp": "global"})json",
                "/convention/dp: \"global\" over data axis \"dp\"; expected \"per_rank\", or "
                "nothing. Only model axes share one loss; over others each rank has its own. "
                "[convention]"}));

INSTANTIATE_TEST_SUITE_P(
    RoutingSize, InMlp,
    testing::Values(Mistake{
        R"json({"name": "tp", "size": 2}]})json",
        R"json({"name": "tp", "size": 8}]}, "routing": {"r": {"axis": "tp", "experts": 1048576}})json",
        "/routing/r/experts: 1048576 experts on 8 ranks; expected at most 4,194,304 of both "
        "multiplied. [out-of-range]"}));

INSTANTIATE_TEST_SUITE_P(
    Pipeline, InMlp,
    testing::Values(Mistake{kLoss, R"json("pipeline": {})json",
                            "/pipeline: a pipeline, but the mesh has no pipeline axis; expected an "
                            "axis with \"kind\": \"pipeline\". [pipeline-axis]"},
                    Mistake{kLoss, R"json("pipeline": {"axis": "tp"})json",
                            "/pipeline/axis: axis \"tp\" is no pipeline axis; expected one that "
                            "is. Write \"kind\": \"pipeline\" in the mesh. [pipeline-axis]"}));

INSTANTIATE_TEST_SUITE_P(
    Pipeline, InPipe,
    testing::Values(
        Mistake{
            R"json("batch": {)json",
            R"json("gradient_sync": {"kind": "fsdp", "reshard_after_forward": false}, "batch": {)json",
            "/gradient_sync/reshard_after_forward: a pipeline whose parameters are kept after "
            "the forward and resharded after the backward of each microbatch; expected "
            "\"reshard_after_backward\": false beside it. Which microbatches would gather them "
            "again depends on the schedule. [resharding]"},
        Mistake{
            R"json("batch": {)json",
            R"json("gradient_sync": {"kind": "fsdp", "reshard_last_unit": false}, "batch": {)json",
            "/gradient_sync/reshard_last_unit: a pipeline whose parameters are kept after the "
            "forward and resharded after the backward of each microbatch; expected true. Which "
            "microbatches would gather them again depends on the schedule. [resharding]"},
        Mistake{R"json("batch": {)json", R"json("pipeline": {"schedule": "1f1p"}, "batch": {)json",
                "/pipeline/schedule: unknown schedule \"1f1p\"; expected one of \"gpipe\", "
                "\"1f1b\", \"interleaved\", \"interleaved_steps\", \"deepspeed\". Did you mean "
                "\"1f1b\"? [unknown-schedule]"},
        Mistake{R"json("batch": {)json", R"json("pipeline": {"chunks": 2}, "batch": {)json",
                "/pipeline/chunks: 2 chunks with schedule \"1f1b\"; expected 1, or \"schedule\": "
                "\"interleaved\". [schedule]"},
        Mistake{R"json("batch": {)json", R"json("pipeline": {"drain": "reversed"}, "batch": {)json",
                "/pipeline/drain: \"drain\" with schedule \"1f1b\"; expected it only with "
                "\"gpipe\". [unknown-drain]"},
        Mistake{R"json("batch": {)json",
                R"json("pipeline": {"schedule": "interleaved", "chunks": 2}, "batch": {)json",
                "/ops: no op on stage 2, 3; expected at least one on each of the 4 stages. Give "
                "the ops a \"stage\". [empty-stage]"},
        Mistake{R"json({"global": 64})json",
                R"json({"global": 1048576}, "microbatches": 1048576)json",
                "/microbatches: 1048576 microbatches on 2 stages; expected at most 1,048,576 of "
                "both multiplied. [out-of-range]"},
        Mistake{R"json("stage": 1)json", R"json("stage": 2)json",
                "/ops/1/stage: stage 2; expected a stage from 0 to 1. [no-such-stage]"},
        Mistake{R"json("stage": 1)json", R"json("stage": 0)json",
                "/ops: no op on stage 1; expected at least one on each of the 2 stages. Give the "
                "ops a \"stage\". [empty-stage]"},
        Mistake{R"json("stage": 1)json", R"json("stage": -1)json",
                "/ops/1/stage: -1; expected an integer from 0 to 65,536. [out-of-range]"},
        Mistake{R"json("output": "h")json", R"json("output": "h", "stage": 1)json",
                "/ops: no op on stage 0; expected at least one on each of the 2 stages. Give the "
                "ops a \"stage\". [empty-stage]"},
        Mistake{
            R"json("output": "h"},)json",
            R"json("output": "h", "stage": 1}, {"op": "gelu", "inputs": ["h"], "output": "z", "stage": 0},)json",
            "/ops/1/inputs/0: \"h\" comes from op 0 (\"h\") on stage 1, and this op is on stage 0; "
            "expected a stage that is not before its inputs'. [stage-backwards]"},
        Mistake{R"json("requires_grad": true)json", R"json("layout": {"pp": "S(0)"})json",
                "/tensors/x/layout/pp: pipeline axis \"pp\" in a layout; expected a model or data "
                "axis. Stages place ops, layouts never do. [pipeline-axis]"},
        Mistake{R"json({"global": 64})json", R"json({"global": 64, "axes": ["pp"]})json",
                "/batch/axes: pipeline axis \"pp\" in the batch; expected a data axis. "
                "[pipeline-axis]"},
        Mistake{R"json("kind": "pipeline"}])json",
                R"json("kind": "pipeline"}, {"name": "q", "size": 1, "kind": "pipeline"}])json",
                "/mesh/axes/1: a second pipeline axis, \"q\"; expected only one; \"pp\" is one "
                "already. [pipeline-axis]"},
        Mistake{
            R"json("kind": "pipeline"}])json",
            R"json("kind": "pipeline"}], "expert_axes": [{"name": "ep", "size": 2}])json",
            "/mesh/expert_axes/0: expert axis \"ep\" runs along the pipeline; expected the "
            "pipeline axis itself, with the same name and size, or another axis. [pipeline-axis]"},
        Mistake{R"json("batch": {"global": 64},)json", "",
                "a shape says \"batch\", but nothing says how large it is; expected \"batch\": "
                "{\"local\": ...} or \"batch\": {\"global\": ...}. [missing-key]"}));

}  // namespace
}  // namespace s2t
