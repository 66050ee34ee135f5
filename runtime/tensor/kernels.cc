#include "runtime/tensor/kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analyzer/base/diagnostics.h"
#include "runtime/tensor/host_run.h"
#include "runtime/tensor/rows/table.h"

namespace s2t {
namespace {

// Tensors as flat arrays of the compute type, for as long as a call lasts.
template <class T>
class Arrays {
 public:
  const T* read(const Tensor& t) { return (real_.push_back(t.read<T>()), real_.back().data()); }
  const int64_t* read_ids(const Tensor& t) {
    return (ids_.push_back(t.read<int64_t>()), ids_.back().data());
  }
  T* zeros(const Shape& shape) {
    return (real_.emplace_back(static_cast<size_t>(elements(shape))), real_.back().data());
  }

 private:
  std::vector<std::vector<T>> real_;  // moved as a whole: the arrays stay where they are
  std::vector<std::vector<int64_t>> ids_;
};

template <class T>
Tensor rounded(const Shape& shape, DType dtype, const T* data) {
  Tensor t(shape, dtype);
  t.write<T>(std::span<const T>(data, static_cast<size_t>(t.size())));
  return t;
}

void check_shape(const OpCall& call, const char* what, size_t i, const Shape& found,
                 const Shape& expected) {
  if (found != expected)
    throw Fault(fmt::format("{}: {} {} is [{}], its view says [{}]", call.op->name, what, i,
                            fmt::join(found, ","), fmt::join(expected, ",")));
}

void check_inputs(const OpCall& call, std::span<const Tensor> inputs) {
  if (inputs.size() != call.view.rule.operands.size())
    throw Fault(fmt::format("{}: {} inputs, its rule has {}", call.op->name, inputs.size(),
                            call.view.rule.operands.size()));
  for (size_t i = 0; i < inputs.size(); ++i)
    check_shape(call, "input", i, inputs[i].shape(), operand_shape(call.view.rule, i));
}

template <class T>
const KernelRow<T, HostRun>& kernel(const OpCall& call) {
  const auto* row = find_kernel<T, HostRun>(call.op->name);
  if (!row) throw Fault(fmt::format("{} has no kernel", call.op->name));
  return *row;
}

template <class T>
Frame<T> frame(const OpCall& call, std::span<const Tensor> inputs, Arrays<T>& arrays) {
  Frame<T> f{call.view, call.attributes, {}, {}, {}, {}, {}};
  for (const Tensor& t : inputs) {
    const bool real = is_differentiable(t.dtype());
    f.in.push_back(real ? arrays.read(t) : nullptr);
    f.ids.push_back(real ? nullptr : arrays.read_ids(t));
  }
  return f;
}

bool wide(DType dtype) {
  return dtype == DType::f64;
}

template <class T>
std::vector<Tensor> forward_as(const OpCall& call, std::span<const Tensor> inputs, DType dtype) {
  Arrays<T> arrays;
  Frame<T> f = frame(call, inputs, arrays);
  const size_t results = call.view.rule.results.size();
  for (size_t i = 0; i < results; ++i)
    f.out.push_back(arrays.zeros(result_shape(call.view.rule, i)));
  HostRun run;
  kernel<T>(call).forward(f, run);
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < results; ++i)
    outputs.push_back(rounded(result_shape(call.view.rule, i), dtype, f.out[i]));
  return outputs;
}

template <class T>
std::vector<std::optional<Tensor>> backward_as(const OpCall& call, std::span<const Tensor> inputs,
                                               std::span<const Tensor> outputs,
                                               std::span<const std::optional<Tensor>> gradients,
                                               const std::vector<bool>& wanted) {
  Arrays<T> arrays;
  Frame<T> f = frame(call, inputs, arrays);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Shape shape = result_shape(call.view.rule, i);
    f.out.push_back(const_cast<T*>(arrays.read(outputs[i])));
    f.dout.push_back(gradients[i] ? arrays.read(*gradients[i]) : arrays.zeros(shape));
    if (gradients[i]) check_shape(call, "output gradient", i, gradients[i]->shape(), shape);
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    f.din.push_back(wanted[i] ? arrays.zeros(inputs[i].shape()) : nullptr);
  HostRun run;
  kernel<T>(call).backward(f, run);
  std::vector<std::optional<Tensor>> result(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (wanted[i]) result[i] = rounded(inputs[i].shape(), inputs[i].dtype(), f.din[i]);
  return result;
}

// Which inputs have a gradient at all: floats that the op does not stop.
std::vector<bool> differentiable(const OpCall& call, std::span<const Tensor> inputs,
                                 std::vector<bool> wanted) {
  wanted.resize(inputs.size());
  std::string error;
  const auto rule = parse_rule(call.op->rule, error);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool stopped = call.op->stop == "all" || (rule && stops(*call.op, *rule, i));
    wanted[i] = wanted[i] && !stopped && is_differentiable(inputs[i].dtype());
  }
  return wanted;
}

bool any_wide(std::span<const Tensor> tensors) {
  for (const Tensor& t : tensors)
    if (wide(t.dtype())) return true;
  return false;
}

}  // namespace

DType result_dtype(const OpDef& op, const AttributeValues& attributes,
                   std::span<const Tensor> inputs) {
  if (const auto it = attributes.find("dtype"); it != attributes.end())
    if (const auto* name = std::get_if<std::string>(&it->second))
      if (const auto dtype = parse_dtype(*name)) return *dtype;
  if (any_wide(inputs)) return DType::f64;
  if (op.float32_result) return DType::f32;
  std::optional<DType> dtype;
  for (const Tensor& t : inputs)
    if (is_differentiable(t.dtype()))
      dtype = !dtype || *dtype == t.dtype() ? t.dtype() : DType::f32;
  return dtype.value_or(inputs.empty() ? DType::f32 : inputs[0].dtype());
}

std::vector<Tensor> forward(const OpCall& call, std::span<const Tensor> inputs) {
  check_inputs(call, inputs);
  const DType dtype = result_dtype(*call.op, call.attributes, inputs);
  return any_wide(inputs) || wide(dtype) ? forward_as<double>(call, inputs, dtype)
                                         : forward_as<float>(call, inputs, dtype);
}

std::vector<std::optional<Tensor>> backward(const OpCall& call, std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs,
                                            std::span<const std::optional<Tensor>> output_gradients,
                                            const std::vector<bool>& wanted) {
  check_inputs(call, inputs);
  const std::vector<bool> wants = differentiable(call, inputs, wanted);
  if (std::find(wants.begin(), wants.end(), true) == wants.end())
    return std::vector<std::optional<Tensor>>(inputs.size());
  if (outputs.size() != call.view.rule.results.size() || outputs.size() != output_gradients.size())
    throw Fault(fmt::format("{}: one output and gradient per result", call.op->name));
  return any_wide(inputs) || any_wide(outputs)
             ? backward_as<double>(call, inputs, outputs, output_gradients, wants)
             : backward_as<float>(call, inputs, outputs, output_gradients, wants);
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const auto& row : kernel_rows<float, HostRun>()) names.emplace_back(row.op);
  return names;
}

}  // namespace s2t
