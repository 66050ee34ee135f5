// What one kernel call works on, for whatever runs it: flat arrays, the rule with local sizes, and
// a runner. A *runner* (host here, CUDA elsewhere) has
//     items(n, body)     body(i) for every i < n, in any order
//     contract(c)        the generic evaluator on a Contract body
//     zeros<T>(n)        scratch memory with .data()
// Gradient and result arrays arrive zeroed.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "analyzer/ops/op.h"
#include "runtime/tensor/op_view.h"

namespace s2t {

using Dims = std::vector<std::vector<FactorIndex>>;  // of one tensor: per dim its factors

template <class T>
struct KernelFrame {
  const OpView& view;
  const AttributeValues& attributes;
  std::vector<const T*> in;         // null for an integer operand
  std::vector<const int64_t*> ids;  // null for a floating operand
  std::vector<T*> out;              // results; values, not zeros, in a backward
  std::vector<const T*> dout;       // backward: their gradients
  std::vector<T*> din;              // backward: null where no gradient is wanted

  const BoundRule& rule() const { return view.rule; }
  int64_t size_of(std::string_view factor) const { return rule().factors[at(factor)].size; }
  int64_t offset_of(std::string_view factor) const { return view.offset[at(factor)]; }
  int64_t operand_size(size_t i) const { return elements_of(rule().operands[i]); }
  int64_t result_size(size_t i) const { return elements_of(rule().results[i]); }
  // Rows of an operand whose last dim is one row.
  int64_t rows(size_t i) const {
    Dims leading = rule().operands[i];
    leading.pop_back();
    return elements_of(leading);
  }
  int64_t elements_of(const Dims& dims) const {
    int64_t n = 1;
    for (const auto& dim : dims)
      for (const FactorIndex f : dim) n *= rule().factors[f.at()].size;
    return n;
  }

 private:
  size_t at(std::string_view factor) const { return rule().find(factor).value().at(); }
};

// The divisor of a mean: of the unsharded tensor, if whoever runs the op says so.
template <class T>
double mean_count(const KernelFrame<T>& f) {
  return number_or(f.attributes, "count", static_cast<double>(f.operand_size(0)));
}

// One op for one runner: both directions. `backward` is null where no operand has a gradient.
template <class T, class Run>
struct KernelRow {
  std::string_view op;
  void (*forward)(const KernelFrame<T>&, Run&) = nullptr;
  void (*backward)(const KernelFrame<T>&, Run&) = nullptr;
};

// A struct with static `forward` and `backward` as a row.
template <class Op, class T, class Run>
constexpr KernelRow<T, Run> row(std::string_view op) {
  return {op, &Op::forward, &Op::backward};
}

}  // namespace s2t
