#include "analyzer/io/transformer/builder.h"

#include <algorithm>

namespace s2t {

int64_t ModelBuilder::vocabulary() const {
  const int64_t multiple = profile.number("vocabulary_padding") * p.tp;
  if (multiple == 0) return a.vocab;
  return (a.vocab + multiple - 1) / multiple * multiple;
}

bool ModelBuilder::has_axis(const std::string& name) const {
  const auto in = [&](const std::vector<AxisDecl>& axes) {
    return std::any_of(axes.begin(), axes.end(), [&](const AxisDecl& axis) {
      return axis.name == name ||
             std::any_of(axis.parts.begin(), axis.parts.end(),
                         [&](const AxisDecl& part) { return part.name == name; });
    });
  };
  return in(model.mesh.axes) || in(model.mesh.expert_axes);
}

LayoutDecl ModelBuilder::layout(const Placements& placements, const std::string& of) const {
  LayoutDecl layout;
  layout.pointer = of;
  for (const auto& [axis, placement] : placements)
    if (has_axis(axis)) layout.entries.push_back({axis, placement, of});
  return layout;
}

TensorDecl& ModelBuilder::leaf(const std::string& name, const std::vector<int64_t>& shape,
                               DType dtype, const Placements& placements) {
  TensorDecl t;
  t.name = t.pointer = name;
  for (const int64_t size : shape) t.shape.push_back({size, false});
  t.dtype = dtype;
  t.layout = layout(placements, name);
  model.tensors.push_back(std::move(t));
  return model.tensors.back();
}

std::string ModelBuilder::parameter(const std::string& suffix, const std::vector<int64_t>& shape,
                                    const Placements& placements) {
  const std::string name = module + "." + suffix;
  made.push_back({model.tensors.size(), module.size(), stage});
  TensorDecl& t = leaf(name, shape, p.dtype, placements);
  t.parameter = t.requires_grad = true;
  return name;
}

std::string ModelBuilder::integers(const std::string& name, const std::vector<int64_t>& shape,
                                   const Placements& placements) {
  leaf(name, shape, DType::i64, placements);
  return name;
}

void ModelBuilder::read_again(const std::string& name) {
  for (size_t i = 0; i < made.size(); ++i)
    if (model.tensors[made[i].tensor].name == name && made[i].stage != stage)
      return made.push_back({made[i].tensor, made[i].module_size, stage});
}

std::string ModelBuilder::ids(const std::string& name) {
  const int64_t tokens = p.dp * p.seq * p.micro_batch;
  return integers(name, {tokens}, {{"dp", "S(0)"}, {"cp", "S(0)"}});
}

OpDecl& ModelBuilder::add_op(std::string_view op, const std::string& suffix,
                             std::vector<std::string> inputs) {
  OpDecl decl;
  decl.op = op;
  decl.name = decl.pointer = module + "." + suffix;
  decl.inputs = std::move(inputs);
  decl.outputs = {decl.name};
  decl.stage = stage;
  decl.module = module;
  decl.recomputed = recomputed;
  model.ops.push_back(std::move(decl));
  return model.ops.back();
}

std::string ModelBuilder::op(std::string_view name, const std::string& suffix,
                             std::vector<std::string> inputs) {
  return add_op(name, suffix, std::move(inputs)).name;
}

void ModelBuilder::pin(const std::string& tensor, const Placements& placements) {
  LayoutDecl decl = layout(placements, tensor);
  if (!decl.entries.empty()) model.pins.push_back({tensor, std::move(decl), tensor});
}

std::string ModelBuilder::placed(const std::string& x, const std::string& suffix,
                                 const Placements& placements) {
  OpDecl& decl = add_op("redistribute", suffix, {x});
  decl.attributes["layout"] = {layout(placements, decl.pointer), decl.pointer};
  return decl.name;
}

void ModelBuilder::linear_over(const std::string& axis) {
  if (has_axis(axis)) model.ops.back().modes[axis] = "linear";
}

void ModelBuilder::gathered_again(const std::string& tensor) {
  if (p.sequence_parallel() && profile.is("sequence_residual", "regather"))
    not_kept(tensor, "sequence_residual=regather");
}

void ModelBuilder::not_kept(const std::string& tensor, std::string_view setting) {
  TensorDecl note;
  note.name = note.pointer = tensor;
  note.residual = Residual::stored;
  note.stored_by = setting;
  model.tensors.push_back(std::move(note));
}

}  // namespace s2t
