// What the estimate grows with, and that a run that cannot fit is refused before it starts.
#include "runtime/run/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "analyzer/base/diagnostics.h"
#include "analyzer/io/model_json.h"

namespace s2t {
namespace {

using testing::HasSubstr;

// One column- and one row-parallel layer of `width`.
MemoryNeed need_of(const std::string& width, bool processes = false) {
  const std::string text = R"json({"schema": "shape2trace.model/1", "name": "mlp",
    "mesh": {"axes": [{"name": "tp", "size": 4}]}, "convention": "global",
    "tensors": {"x": {"shape": [8, WIDTH]}, "target": {"shape": [8, WIDTH]},
                "w1": {"shape": [WIDTH, WIDTH], "parameter": true, "layout": {"tp": "S(0)"}},
                "w2": {"shape": [WIDTH, WIDTH], "parameter": true, "layout": {"tp": "S(1)"}}},
    "ops": [{"op": "linear", "inputs": ["x", "w1"], "output": "h"},
            {"op": "linear", "inputs": ["h", "w2"], "output": "y"},
            {"op": "mse", "inputs": ["y", "target"], "output": "loss"}],
    "loss": "loss"})json";
  const std::string filled = std::regex_replace(text, std::regex("WIDTH"), width);
  const Graph graph = build_graph(parse_model(filled, "mlp.json"));
  return memory_needed(graph, plan_forward(graph), processes);
}

TEST(Memory, TheUnshardedModelIsCountedInFloat64) {
  const double elements = 2.0 * 1024 * 1024 + 4 * 8 * 1024 + 1;
  EXPECT_EQ(need_of("1024").reference, static_cast<uint64_t>(2 * 8 * elements));
}

TEST(Memory, ItGrowsWithTheModel) {
  const MemoryNeed small = need_of("1024"), large = need_of("2048");
  EXPECT_NEAR(static_cast<double>(large.peak()) / static_cast<double>(small.peak()), 4, 0.2);
}

TEST(Memory, SizesBeyondAnyMachineDoNotWrapAround) {
  EXPECT_EQ(need_of("1073741824").peak(), UINT64_MAX);
}

TEST(Memory, SomethingIsFree) {
  EXPECT_GT(memory_available(), 1u << 20);
  EXPECT_LT(memory_available(), UINT64_MAX);
}

TEST(Memory, TooMuchIsRefusedWithBothFigures) {
  Graph graph;
  graph.file = "mlp.json";
  MemoryNeed need;
  need.ranks = 3'000'000'000;
  EXPECT_NO_THROW(require_memory(graph, need, 3'000'000'000));
  try {
    require_memory(graph, need, 2'500'000'000);
    FAIL() << "it was not refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("mlp.json: "));
    EXPECT_THAT(error.what(), HasSubstr("takes about 3.0 GB"));
    EXPECT_THAT(error.what(), HasSubstr("no more than the 2.5 GB that are free here"));
    EXPECT_THAT(error.what(), HasSubstr("[too-little-memory]"));
  }
}

}  // namespace
}  // namespace s2t
