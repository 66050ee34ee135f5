// The annotated graph for those who draw it: ops and values by name, with shapes and layouts as
// text, in graph order. Plain data. An event says which value it moves and for which op
// (`Event::value`, `Event::user`), so whoever draws finds the edge that it sits on.
//
// Invariants: `producer` and `inputs` index into the two lists; an op's inputs are made before it.
// Not known here: how it is drawn, what repeats, modes, gradients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/base/dtype.h"
#include "analyzer/layout/layout.h"

namespace s2t {

struct PictureValue {
  std::string name;
  Shape shape;         // of the whole mesh, one microbatch
  std::string layout;  // as produced, "tp:S(1)"
  DType dtype = DType::f32;
  bool parameter = false;
  int32_t producer = -1;  // op; -1: a leaf
};

struct PictureOp {
  std::string name;    // "fc2"
  std::string module;  // owner in the model, may be empty
  std::string kind;    // row of the op table, "linear"
  int32_t stage = 0;
  std::vector<int32_t> inputs;        // values
  std::vector<std::string> consumed;  // per input: its layout as this op wants it
};

struct GraphPicture {
  std::vector<PictureValue> values;
  std::vector<PictureOp> ops;  // by stage, topological
};

}  // namespace s2t
