#include "runtime/run/rounding.h"

#include <algorithm>
#include <cmath>

namespace s2t {
namespace {

constexpr unsigned kRuns = 4;

// An overflow says nothing about rounding.
void widen(double& most, const Tensor& run, const Tensor& exact) {
  const double difference = max_abs_difference(run, exact);
  if (std::isfinite(difference)) most = std::max(most, difference);
}

}  // namespace

double Rounding::of_value(int64_t microbatch, TensorId value) {
  measure();
  return values_.at(static_cast<size_t>(microbatch)).at(value.at());
}

double Rounding::of_gradient(TensorId parameter) {
  measure();
  return gradients_.at(parameter);
}

double Rounding::of_input_gradient(int64_t microbatch, TensorId input) {
  measure();
  return input_gradients_.at(static_cast<size_t>(microbatch)).at(input);
}

void Rounding::measure() {
  if (measured_) return;
  measured_ = true;
  values_.assign(exact_.values.size(), std::vector<double>(graph_.values.size(), 0));
  input_gradients_.resize(exact_.input_gradients.size());
  for (unsigned run = 1; run <= kRuns; ++run)
    measure(run_reference(graph_, forward_, false, precision_, run));
}

void Rounding::measure(const Reference& run) {
  for (size_t m = 0; m < run.values.size(); ++m) {
    for (size_t v = 0; v < run.values[m].size(); ++v)
      widen(values_[m][v], run.values[m][v], exact_.values[m][v]);
    for (const auto& [input, gradient] : run.input_gradients[m])
      widen(input_gradients_[m][input], gradient, exact_.input_gradients[m].at(input));
  }
  for (const auto& [p, gradient] : run.parameter_gradients)
    widen(gradients_[p], gradient, exact_.parameter_gradients.at(p));
}

}  // namespace s2t
