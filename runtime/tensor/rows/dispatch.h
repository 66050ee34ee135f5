// Runs one op of the table on any runner: tensors become arrays of the compute type, the kernel
// works on them, results are rounded to their dtype.
//
// A runner brings, beside what frame.h asks for, `Array<T>`, `upload(vector)` and
// `download(pointer, n)`.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "runtime/tensor/kernels.h"
#include "runtime/tensor/rows/table.h"

namespace s2t {

// Faults of the caller; the messages name op, tensor and both shapes.
void check_inputs(const OpCall& call, std::span<const Tensor> inputs);
void check_gradients(const OpCall& call, std::span<const Tensor> outputs,
                     std::span<const std::optional<Tensor>> gradients);
[[noreturn]] void no_kernel(const OpCall& call);
// Which inputs have a gradient at all: floats that the op does not stop.
std::vector<bool> differentiable(const OpCall& call, std::span<const Tensor> inputs,
                                 std::vector<bool> wanted);
// Whether to compute in float64.
bool is_wide(std::span<const Tensor> inputs, DType result);

// Arrays for as long as one call lasts; a deque never moves them.
template <class T, class Run>
class Arrays {
 public:
  explicit Arrays(Run& run) : run_(run) {}

  T* read(const Tensor& t) { return keep(real_, run_.upload(t.read<T>())); }
  const int64_t* read_ids(const Tensor& t) { return keep(ids_, run_.upload(t.read<int64_t>())); }
  T* zeros(int64_t n) { return keep(real_, run_.template zeros<T>(n)); }

 private:
  template <class Kept, class Array>
  static auto* keep(Kept& kept, Array array) {
    kept.push_back(std::move(array));
    return kept.back().data();
  }

  Run& run_;
  std::deque<typename Run::template Array<T>> real_;
  std::deque<typename Run::template Array<int64_t>> ids_;
};

template <class T, class Run>
const KernelRow<T, Run>& kernel_of(const OpCall& call) {
  const auto* row = find_kernel<T, Run>(call.op->name);
  if (!row) no_kernel(call);
  return *row;
}

template <class T, class Run>
KernelFrame<T> frame_of(const OpCall& call, std::span<const Tensor> inputs,
                        Arrays<T, Run>& arrays) {
  KernelFrame<T> f{call.view, call.attributes, {}, {}, {}, {}, {}};
  for (const Tensor& t : inputs) {
    const bool real = is_differentiable(t.dtype());
    f.in.push_back(real ? arrays.read(t) : nullptr);
    f.ids.push_back(real ? nullptr : arrays.read_ids(t));
  }
  return f;
}

// A tensor from `n` elements of the runner's memory.
template <class T, class Run>
Tensor rounded(Run& run, const Shape& shape, DType dtype, const T* data) {
  Tensor t(shape, dtype);
  const std::vector<T> elements = run.download(data, t.size());
  t.write<T>(elements);
  return t;
}

template <class T, class Run>
std::vector<Tensor> forward_as(Run& run, const OpCall& call, std::span<const Tensor> inputs,
                               DType dtype) {
  Arrays<T, Run> arrays(run);
  KernelFrame<T> f = frame_of(call, inputs, arrays);
  for (size_t i = 0; i < f.rule().results.size(); ++i)
    f.out.push_back(arrays.zeros(f.result_size(i)));
  kernel_of<T, Run>(call).forward(f, run);
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < f.out.size(); ++i)
    outputs.push_back(rounded(run, result_shape(f.rule(), i), dtype, f.out[i]));
  return outputs;
}

template <class T, class Run>
std::vector<std::optional<Tensor>> backward_as(Run& run, const OpCall& call,
                                               std::span<const Tensor> inputs,
                                               std::span<const Tensor> outputs,
                                               std::span<const std::optional<Tensor>> gradients,
                                               const std::vector<bool>& wanted) {
  Arrays<T, Run> arrays(run);
  KernelFrame<T> f = frame_of(call, inputs, arrays);
  for (size_t i = 0; i < outputs.size(); ++i) {
    f.out.push_back(arrays.read(outputs[i]));
    f.dout.push_back(gradients[i] ? arrays.read(*gradients[i]) : arrays.zeros(f.result_size(i)));
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    f.din.push_back(wanted[i] ? arrays.zeros(f.operand_size(i)) : nullptr);
  kernel_of<T, Run>(call).backward(f, run);
  std::vector<std::optional<Tensor>> result(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (wanted[i]) result[i] = rounded(run, inputs[i].shape(), inputs[i].dtype(), f.din[i]);
  return result;
}

template <class Run>
std::vector<Tensor> forward_on(Run& run, const OpCall& call, std::span<const Tensor> inputs) {
  check_inputs(call, inputs);
  const DType dtype = result_dtype(*call.op, call.attributes, inputs);
  return is_wide(inputs, dtype) ? forward_as<double>(run, call, inputs, dtype)
                                : forward_as<float>(run, call, inputs, dtype);
}

template <class Run>
std::vector<std::optional<Tensor>> backward_on(Run& run, const OpCall& call,
                                               std::span<const Tensor> inputs,
                                               std::span<const Tensor> outputs,
                                               std::span<const std::optional<Tensor>> gradients,
                                               const std::vector<bool>& wanted) {
  check_inputs(call, inputs);
  const std::vector<bool> wants = differentiable(call, inputs, wanted);
  if (std::find(wants.begin(), wants.end(), true) == wants.end())
    return std::vector<std::optional<Tensor>>(inputs.size());
  check_gradients(call, outputs, gradients);
  return is_wide(inputs, outputs[0].dtype())
             ? backward_as<double>(run, call, inputs, outputs, gradients, wants)
             : backward_as<float>(run, call, inputs, outputs, gradients, wants);
}

}  // namespace s2t
