#include "runtime/run/local_op.h"

#include "runtime/device/host_device.h"
#include "runtime/run/shard.h"

namespace s2t {
namespace {

// A pin: what it does to layouts is done before it, what is left is its input.
bool is_identity(const OpCall& call) {
  return call.op->name == "redistribute";
}

// Shape ops move integers too; kernels compute with floating-point numbers, and f64 holds them.
bool moves_integers(const OpCall& call, std::span<const Tensor> inputs) {
  if (call.op->family != "shape") return false;
  for (const Tensor& t : inputs)
    if (is_differentiable(t.dtype())) return false;
  return !inputs.empty();
}

}  // namespace

LocalOp::LocalOp(const Graph& graph, const Forward& forward, OpId op, Rank rank, int64_t microbatch,
                 Device& device)
    : device_(device), kernels_(kernels_of(device)) {
  const OpPlan& plan = forward.ops[op.at()];
  call_.view = local_view(*graph.op(op).rule, plan.modes, graph.mesh, rank);
  prepare(graph, forward, op, microbatch);
  if (is_mean(graph.op(op))) call_.attributes["count"] = mean_divisor(graph, forward, op);
  if (mask_) *mask_ = shard(*mask_, plan.operand_ports[routed()], graph.mesh, rank);
}

LocalOp::LocalOp(const Graph& graph, const Forward& forward, OpId op, int64_t microbatch)
    : device_(host_device()), kernels_(kernels_of(device_)) {
  call_.view = whole_view(*graph.op(op).rule);
  prepare(graph, forward, op, microbatch);
  call_.attributes.erase("dtype");  // a reference keeps its precision
}

void LocalOp::prepare(const Graph& graph, const Forward& forward, OpId id, int64_t microbatch) {
  const Op& op = graph.op(id);
  call_.op = op.def;
  call_.attributes = op.attributes;
  call_.attributes["seed"] = int64_t{id.value} * 4096 + microbatch;
  const auto it = op.attributes.find("routing");
  if (it == op.attributes.end()) return;
  for (size_t r = 0; r < graph.routings.size(); ++r)
    if (graph.routings[r].name == std::get<std::string>(it->second))
      mask_ = RoutedRows(graph, forward, r).mask();
}

size_t LocalOp::routed() const {
  return call_.op->name == "moe_probs" ? 0 : 1;
}

std::vector<Tensor> LocalOp::masked(std::span<const Tensor> inputs) const {
  std::vector<Tensor> list(inputs.begin(), inputs.end());
  if (mask_) list[routed()] = times(list[routed()], *mask_);
  return list;
}

std::vector<Tensor> LocalOp::moved(std::span<const Tensor> inputs) const {
  std::vector<Tensor> wide;
  for (const Tensor& t : inputs) {
    Tensor w(t.shape(), DType::f64);
    w.write<double>(t.read<double>());
    wide.push_back(std::move(w));
  }
  std::vector<Tensor> out;
  for (const Tensor& t : kernels_.forward(device_, call_, wide))
    out.push_back(t.cast(inputs[0].dtype()));
  return out;
}

std::vector<Tensor> LocalOp::forward(std::span<const Tensor> inputs) {
  if (ring_) return {ring_->forward(inputs)};
  if (is_identity(call_)) return {inputs[0]};
  if (moves_integers(call_, inputs)) return moved(inputs);
  return kernels_.forward(device_, call_, masked(inputs));
}

std::vector<std::optional<Tensor>> LocalOp::backward(
    std::span<const Tensor> inputs, std::span<const Tensor> outputs,
    std::span<const std::optional<Tensor>> gradients, const std::vector<bool>& wanted) {
  if (ring_) return ring_->backward(inputs, outputs[0], *gradients[0], wanted);
  if (is_identity(call_)) return {gradients[0]};
  auto result = kernels_.backward(device_, call_, masked(inputs), outputs, gradients, wanted);
  if (mask_ && result[routed()]) result[routed()] = times(*result[routed()], *mask_);
  return result;
}

bool is_mean(const Op& op) {
  return op.is("mean") || op.is("mse") || op.is("mean_square");
}

int64_t mean_divisor(const Graph& graph, const Forward& forward, OpId id) {
  const Shape& shape = graph.value(graph.op(id).inputs[0]).shape;
  const Shape local = local_shape(shape, forward.ops[id.at()].operand_ports[0], graph.mesh);
  return static_cast<int64_t>(elements(graph.loss_scale_global ? shape : local));
}

double mean_excess(const Graph& graph, const Forward& forward, OpId id) {
  const Shape& shape = graph.value(graph.op(id).inputs[0]).shape;
  return static_cast<double>(elements(shape)) /
         static_cast<double>(mean_divisor(graph, forward, id));
}

bool carries_gradient(const Graph& graph, const Op& op, size_t operand) {
  return !stops(*op.def, *op.notation, operand) &&
         is_differentiable(graph.value(op.inputs[operand]).dtype);
}

std::vector<bool> reached_from_loss(const Graph& graph) {
  std::vector<bool> reached(graph.values.size(), false);
  if (graph.loss.valid()) reached[graph.loss.at()] = true;
  for (size_t o = graph.ops.size(); o-- > 0;) {
    const Op& op = graph.ops[o];
    for (const TensorId out : op.outputs)
      for (size_t i = 0; reached[out.at()] && i < op.inputs.size(); ++i)
        if (carries_gradient(graph, op, i)) reached[op.inputs[i].at()] = true;
  }
  return reached;
}

Tensor times(const Tensor& a, const Tensor& b) {
  auto x = a.read<double>();
  const auto y = b.read<double>();
  for (size_t i = 0; i < x.size(); ++i) x[i] *= y[i];
  Tensor out(a.shape(), a.dtype());
  out.write<double>(x);
  return out;
}

Tensor scaled(const Tensor& a, double factor) {
  auto x = a.read<double>();
  for (double& e : x) e *= factor;
  Tensor out(a.shape(), a.dtype());
  out.write<double>(x);
  return out;
}

}  // namespace s2t
