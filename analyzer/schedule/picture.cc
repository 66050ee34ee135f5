#include "analyzer/schedule/picture.h"

namespace s2t {

GraphPicture picture_of(const Graph& graph, const Forward& forward) {
  GraphPicture picture;
  picture.values.reserve(graph.values.size());
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    picture.values.push_back({value.name, value.shape, to_string(forward.layouts[v], graph.mesh),
                              value.dtype, value.parameter, value.producer.value});
  }
  picture.ops.reserve(graph.ops.size());
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    const Op& op = graph.ops[o];
    PictureOp drawn{op.name, op.module, std::string(op.def->name), op.stage, {}, {}};
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      drawn.inputs.push_back(op.inputs[i].value);
      drawn.consumed.push_back(to_string(forward.ops[o].operand_ports[i], graph.mesh));
    }
    picture.ops.push_back(std::move(drawn));
  }
  return picture;
}

}  // namespace s2t
