#include "runtime/tensor/kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analyzer/base/diagnostics.h"
#include "runtime/tensor/host_run.h"
#include "runtime/tensor/rows/dispatch.h"

namespace s2t {
namespace {

void check_shape(const OpCall& call, const char* what, size_t i, const Shape& found,
                 const Shape& expected) {
  if (found != expected)
    throw Fault(fmt::format("{}: {} {} is [{}], its view says [{}]", call.op->name, what, i,
                            fmt::join(found, ","), fmt::join(expected, ",")));
}

std::vector<Tensor> forward_on_host(Device&, const OpCall& call, std::span<const Tensor> inputs) {
  return forward(call, inputs);
}

std::vector<std::optional<Tensor>> backward_on_host(
    Device&, const OpCall& call, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
    std::span<const std::optional<Tensor>> gradients, const std::vector<bool>& wanted) {
  return backward(call, inputs, outputs, gradients, wanted);
}

constexpr Kernels kHostKernels{"host", forward_on_host, backward_on_host};

}  // namespace

void check_inputs(const OpCall& call, std::span<const Tensor> inputs) {
  if (inputs.size() != call.view.rule.operands.size())
    throw Fault(fmt::format("{}: {} inputs, its rule has {}", call.op->name, inputs.size(),
                            call.view.rule.operands.size()));
  for (size_t i = 0; i < inputs.size(); ++i)
    check_shape(call, "input", i, inputs[i].shape(), operand_shape(call.view.rule, i));
}

void check_gradients(const OpCall& call, std::span<const Tensor> outputs,
                     std::span<const std::optional<Tensor>> gradients) {
  if (outputs.size() != call.view.rule.results.size() || outputs.size() != gradients.size())
    throw Fault(fmt::format("{}: one output and gradient per result", call.op->name));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Shape expected = result_shape(call.view.rule, i);
    check_shape(call, "output", i, outputs[i].shape(), expected);
    if (gradients[i]) check_shape(call, "output gradient", i, gradients[i]->shape(), expected);
  }
}

void no_kernel(const OpCall& call) {
  throw Fault(fmt::format("{} has no kernel", call.op->name));
}

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

bool is_wide(std::span<const Tensor> inputs, DType result) {
  return result == DType::f64 || std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) {
           return t.dtype() == DType::f64;
         });
}

DType result_dtype(const OpDef& op, const AttributeValues& attributes,
                   std::span<const Tensor> inputs) {
  if (const auto it = attributes.find("dtype"); it != attributes.end())
    if (const auto* name = std::get_if<std::string>(&it->second))
      if (const auto dtype = parse_dtype(*name)) return *dtype;
  if (is_wide(inputs, DType::f32)) return DType::f64;
  if (op.float32_result) return DType::f32;
  std::optional<DType> dtype;
  for (const Tensor& t : inputs)
    if (is_differentiable(t.dtype()))
      dtype = !dtype || *dtype == t.dtype() ? t.dtype() : DType::f32;
  return dtype.value_or(inputs.empty() ? DType::f32 : inputs[0].dtype());
}

std::vector<Tensor> forward(const OpCall& call, std::span<const Tensor> inputs) {
  HostRun run;
  return forward_on(run, call, inputs);
}

std::vector<std::optional<Tensor>> backward(const OpCall& call, std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs,
                                            std::span<const std::optional<Tensor>> output_gradients,
                                            const std::vector<bool>& wanted) {
  HostRun run;
  return backward_on(run, call, inputs, outputs, output_gradients, wanted);
}

const Kernels& kernels_of(const Device& device) {
  const auto* own = static_cast<const Kernels*>(device.extension("kernels"));
  return own ? *own : kHostKernels;
}

std::vector<std::string> ops_with_kernels() {
  std::vector<std::string> names;
  for (const auto& row : kernel_rows<float, HostRun>()) names.emplace_back(row.op);
  return names;
}

}  // namespace s2t
