#include "runtime/run/reference.h"

#include <algorithm>
#include <array>
#include <random>
#include <string_view>

#include "runtime/comm/backend.h"
#include "runtime/run/data.h"
#include "runtime/run/local_op.h"

namespace s2t {
namespace {

class Noise {
 public:
  explicit Noise(unsigned seed) : seed_(seed), random_(seed) {}

  Tensor on(const Tensor& t) {
    if (seed_ == 0 || !is_differentiable(t.dtype())) return t;
    const double ulp = 2 * unit_roundoff(t.dtype());
    std::vector<double> x = t.read<double>();
    for (double& e : x) e += e * ulp * (static_cast<double>(random_() % 3) - 1);
    return Tensor::of(t.shape(), t.dtype(), x);
  }

 private:
  const unsigned seed_;
  std::mt19937 random_;
};

class Microbatch {
 public:
  Microbatch(const Graph& graph, const Forward& forward, int64_t microbatch, bool integers,
             DType precision, Noise& noise)
      : graph_(graph), noise_(noise) {
    for (size_t o = 0; o < graph.ops.size(); ++o)
      ops_.emplace_back(graph, forward, OpId(o), microbatch);
    for (size_t v = 0; v < graph.values.size(); ++v) {
      values_.emplace_back();
      if (!graph.values[v].leaf()) continue;
      values_[v] = leaf_data(graph, TensorId(v), microbatch, integers);
      if (is_differentiable(graph.values[v].dtype)) values_[v] = values_[v].cast(precision);
    }
  }

  void forward() {
    for (size_t o = 0; o < graph_.ops.size(); ++o) {
      throw_if_cancelled();
      const std::vector<Tensor> out = ops_[o].forward(gather(graph_.ops[o].inputs));
      for (size_t r = 0; r < out.size(); ++r)
        values_[graph_.ops[o].outputs[r].at()] = noise_.on(out[r]);
    }
  }

  // Gradients of everything, whether or not anybody asked for them.
  void backward() {
    gradients_.resize(values_.size());
    Tensor one = values_[graph_.loss.at()];
    one.write<double>(std::vector<double>(static_cast<size_t>(one.size()), 1));
    gradients_[graph_.loss.at()] = one;
    for (size_t o = graph_.ops.size(); o-- > 0;) step_back(o);
  }

  std::vector<Tensor>& values() { return values_; }
  const std::optional<Tensor>& gradient(TensorId t) const { return gradients_[t.at()]; }

 private:
  std::vector<Tensor> gather(const std::vector<TensorId>& ids) const {
    std::vector<Tensor> list;
    for (const TensorId t : ids) list.push_back(values_[t.at()]);
    return list;
  }

  void step_back(size_t o) {
    throw_if_cancelled();
    const Op& op = graph_.ops[o];
    std::vector<std::optional<Tensor>> arrived;
    bool any = false;
    for (const TensorId t : op.outputs) {
      arrived.push_back(gradients_[t.at()]);
      any |= arrived.back().has_value();
    }
    std::vector<bool> wanted;
    for (size_t i = 0; i < op.inputs.size(); ++i) wanted.push_back(carries_gradient(graph_, op, i));
    if (!any || std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return;
    const auto made = ops_[o].backward(gather(op.inputs), gather(op.outputs), arrived, wanted);
    for (size_t i = 0; i < made.size(); ++i) {
      std::optional<Tensor>& sum = gradients_[op.inputs[i].at()];
      if (made[i]) sum = sum ? add(*sum, noise_.on(*made[i])) : noise_.on(*made[i]);
    }
  }

  const Graph& graph_;
  Noise& noise_;
  std::vector<LocalOp> ops_;
  std::vector<Tensor> values_;
  std::vector<std::optional<Tensor>> gradients_;
};

bool is_power_of_two(int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}

bool keeps_integers(const Graph& graph, const Op& op) {
  static constexpr std::array<std::string_view, 15> kOps{
      "linear", "matmul",   "einsum",        "bias_add",   "add",
      "sub",    "identity", "relu",          "embedding",  "concat",
      "split",  "unstack",  "add_positions", "moe_expert", "transfer"};
  if (is_mean(op))
    return is_power_of_two(static_cast<int64_t>(elements(graph.value(op.inputs[0]).shape)));
  return op.def->family == "shape" ||
         std::find(kOps.begin(), kOps.end(), op.def->name) != kOps.end();
}

bool same_numbers(const Tensor& a, const Tensor& b) {
  return a.read<double>() == b.read<double>();
}

}  // namespace

Reference run_reference(const Graph& graph, const Forward& forward, bool integers, DType precision,
                        unsigned seed) {
  Reference out;
  Noise noise(seed);
  for (int64_t m = 0; m < graph.microbatches; ++m) {
    Microbatch run(graph, forward, m, integers, precision, noise);
    run.forward();
    if (graph.loss.valid()) run.backward();
    out.input_gradients.emplace_back();
    for (size_t v = 0; graph.loss.valid() && v < graph.values.size(); ++v) {
      const Value& value = graph.values[v];
      if (!value.leaf() || !value.requires_grad || !run.gradient(TensorId(v))) continue;
      const Tensor& gradient = *run.gradient(TensorId(v));
      if (!value.parameter) {
        out.input_gradients.back()[TensorId(v)] = gradient;
      } else {
        const auto [at, fresh] = out.parameter_gradients.emplace(TensorId(v), gradient);
        if (!fresh) at->second = add(at->second, gradient);
      }
    }
    out.values.push_back(std::move(run.values()));
  }
  return out;
}

bool may_sum_exactly(const Graph& graph) {
  for (const Op& op : graph.ops)
    if (!keeps_integers(graph, op)) return false;
  for (const Value& v : graph.values)
    if (is_differentiable(v.dtype) && v.dtype != DType::f32) return false;
  return graph.sync.dtype.value_or(DType::f32) == DType::f32;
}

bool sums_are_exact(const Graph& graph, const Forward& forward) {
  if (!may_sum_exactly(graph)) return false;
  const Reference narrow = run_reference(graph, forward, true, DType::f32);
  const Reference wide = run_reference(graph, forward, true, DType::f64);
  for (size_t m = 0; m < wide.values.size(); ++m)
    for (size_t v = 0; v < wide.values[m].size(); ++v)
      if (!same_numbers(narrow.values[m][v], wide.values[m][v])) return false;
  for (const auto& [p, gradient] : wide.parameter_gradients)
    if (!same_numbers(narrow.parameter_gradients.at(p), gradient)) return false;
  return true;
}

}  // namespace s2t
