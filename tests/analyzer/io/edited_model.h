// Two small models that the tests edit, and what reading the edited text says.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "analyzer/io/model_json.h"

namespace s2t {

// A tensor-parallel MLP as a person would write it.
inline constexpr std::string_view kMlp = R"json({
  "schema": "shape2trace.model/1",
  "name": "mlp",
  "mesh": {"axes": [{"name": "dp", "size": 2, "kind": "data"}, {"name": "tp", "size": 2}]},
  "batch": {"local": 32, "axes": ["dp"]},
  "tensors": {
    "x": {"shape": ["batch", 512]},
    "w1": {"shape": [1024, 512], "parameter": true, "layout": {"tp": "S(0)"}},
    "w2": {"shape": [512, 1024], "parameter": true, "layout": {"tp": "S(1)"}}
  },
  "ops": [
    {"op": "linear", "name": "fc1", "inputs": ["x", "w1"], "output": "h"},
    {"op": "gelu", "inputs": ["h"], "output": "a"},
    {"op": "linear", "name": "fc2", "inputs": ["a", "w2"], "output": "y"},
    {"op": "mean_square", "inputs": ["y"], "output": "loss"}
  ],
  "loss": "loss"
})json";

// Two stages of one op each.
inline constexpr std::string_view kPipe = R"json({
  "schema": "shape2trace.model/1",
  "mesh": {"axes": [{"name": "pp", "size": 2, "kind": "pipeline"}]},
  "batch": {"global": 64},
  "tensors": {"x": {"shape": ["batch", 4], "requires_grad": true}},
  "ops": [
    {"op": "gelu", "inputs": ["x"], "output": "h"},
    {"op": "gelu", "inputs": ["h"], "output": "y", "stage": 1}
  ]
})json";

struct Edit {
  std::string from, to;
};

// `text` with the first occurrence of each `from` replaced, one edit after the other.
inline std::string edited(std::string_view text, const std::vector<Edit>& edits) {
  std::string result(text);
  for (const auto& [from, to] : edits) {
    const size_t at = result.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) result.replace(at, from.size(), to);
  }
  return result;
}

// All messages of reading `text`, one per line; "" if it is fine.
inline std::string complaints(const std::string& text) {
  try {
    parse_model(text, "m.json");
    return "";
  } catch (const UserError& e) {
    return e.what();
  }
}

}  // namespace s2t
