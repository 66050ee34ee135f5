// Rows of routed tokens: what a run cannot do is refused with what to do instead.
#include "runtime/run/routed_rows.h"

#include <gtest/gtest.h>

#include "analyzer/graph/passes.h"
#include "analyzer/io/model_json.h"

namespace s2t {
namespace {

constexpr const char* kModel = R"j({
    "schema": "shape2trace.model/1", "mesh": {"axes": [{"name": "ep", "size": 2}]},
    "tensors": {"x": {"shape": [16, 4]LAYOUT}, "wr": {"shape": [2, 4], "parameter": true},
                "w": {"shape": [2, 4, 4], "parameter": true, "layout": {"ep": "S(0)"}}},
    "ops": [{"op": "moe_router", "inputs": ["x", "wr"], "output": "route"},
            {"op": "moe_dispatch", "inputs": ["x", "route"], "output": "rows", "routing": "r"},
            {"op": "moe_expert", "inputs": ["rows", "w"], "output": "h"},
            {"op": "moe_combine", "inputs": ["h", "route"], "output": "y", "routing": "r"},
            {"op": "mean_square", "inputs": ["y"], "output": "loss"}],
    "routing": {"r": {"axis": "ep", "experts": 2}}, "loss": "loss"})j";

std::string refusal(const std::string& layout) {
  std::string text = kModel;
  text.replace(text.find("LAYOUT"), 6, layout);
  const Graph graph = build_graph(parse_model(text, "m.json"));
  const Forward forward = plan_forward(graph);
  try {
    RoutedRows(graph, forward, 0);
  } catch (const UserError& error) {
    return to_string(error.diagnostics().at(0), error.file());
  }
  return "";
}

TEST(RoutedRows, OfTokensThatEveryRankHasAreRefusedWithWhatToDo) {
  EXPECT_EQ(
      refusal(""),
      "m.json: /routing/r: \"x\" is routed, but not sharded over \"ep\"; expected tokens that "
      "are: each rank of \"ep\" routes its own. Route what a redistribute op with layout "
      "{\"ep\": \"S(0)\"} makes of \"x\". [routing-rows]");
  EXPECT_EQ(refusal(R"j(, "layout": {"ep": "S(0)"})j"), "");
}

TEST(RoutedRows, OutsideOfTheirBufferAreAFault) {
  Tensor dense({2, 3, 4}, DType::f32);
  const Tensor row({1, 4}, DType::f32);
  EXPECT_THROW(pack_rows(dense, {std::pair(1, 3)}), Fault);
  EXPECT_THROW(unpack_rows(dense, row, {std::pair(2, 0)}), Fault);
  EXPECT_THROW(unpack_rows(dense, row, {std::pair(0, 0), std::pair(0, 1)}), Fault);
  EXPECT_NO_THROW(unpack_rows(dense, pack_rows(dense, {std::pair(1, 2)}), {std::pair(0, 0)}));
}

}  // namespace
}  // namespace s2t
