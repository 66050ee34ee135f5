#include "analyzer/schedule/picture.h"

namespace s2t {

GraphPicture picture_of(const Graph& graph, const Forward& forward) {
  GraphPicture picture;
  LayoutTexts text(graph.mesh);
  picture.values.reserve(graph.values.size());
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    picture.values.push_back({value.name, value.shape, text(forward.layouts[v]), value.dtype,
                              value.parameter, value.producer.value});
  }
  picture.ops.reserve(graph.ops.size());
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    const Op& op = graph.ops[o];
    PictureOp drawn{op.name, op.module, std::string(op.def->name), op.stage, {}, {}};
    drawn.inputs.reserve(op.inputs.size());
    drawn.consumed.reserve(op.inputs.size());
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      drawn.inputs.push_back(op.inputs[i].value);
      drawn.consumed.push_back(text(forward.ops[o].operand_ports[i]));
    }
    picture.ops.push_back(std::move(drawn));
  }
  return picture;
}

}  // namespace s2t
