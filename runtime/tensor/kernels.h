// The local math of every op, forward and backward, on one rank.
//
// `backward` is what a framework's local autograd kernel computes: it knows the local operands,
// results and output gradients and nothing about other ranks. Whether its gradients are whole,
// partial or shards follows from the op's mode, elsewhere. Float math is float32 (float64 as soon
// as an operand or result is float64); bf16 and f16 results are rounded once, after the op.
// Attributes beside those of the op table, set by whoever runs the op:
//   count   mean, mse, mean_square: the divisor; default the number of local elements
//   seed    dropout: tells the masks of several dropouts apart; default 0
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "analyzer/ops/op.h"
#include "runtime/device/device.h"
#include "runtime/tensor/op_view.h"
#include "runtime/tensor/tensor.h"

namespace s2t {

// One op as one rank runs it. `view.rule` must have one operand and result per tensor.
struct OpCall {
  const OpDef* op = nullptr;
  AttributeValues attributes;
  OpView view;
};

// One tensor per result. Fault if an input's shape is not what the view says, or the op is
// composite.
std::vector<Tensor> forward(const OpCall& call, std::span<const Tensor> inputs);

// One gradient per input: present where `wanted[i]`, and never for integers or operands marked
// stop. A missing output gradient counts as zero.
std::vector<std::optional<Tensor>> backward(const OpCall& call, std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs,
                                            std::span<const std::optional<Tensor>> output_gradients,
                                            const std::vector<bool>& wanted);

// The same two on whatever a rank computes on. Tensors stay in host memory between ops; a GPU's
// kernels copy them there and back, so what is proved is the arithmetic, not its speed.
struct Kernels {
  std::string_view where;  // "host", "cuda": what computes
  std::vector<Tensor> (*forward)(Device&, const OpCall&, std::span<const Tensor> inputs);
  std::vector<std::optional<Tensor>> (*backward)(
      Device&, const OpCall&, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
      std::span<const std::optional<Tensor>> output_gradients, const std::vector<bool>& wanted);
};
// The device's own kernels, or the host's where it has none.
const Kernels& kernels_of(const Device& device);

// Ops that have a host kernel; a test compares this with the op table.
std::vector<std::string> ops_with_kernels();

// The dtype of a result, given its operands': cast says it, losses keep float32, else the promotion
// of the floating operands.
DType result_dtype(const OpDef& op, const AttributeValues& attributes,
                   std::span<const Tensor> inputs);

}  // namespace s2t
