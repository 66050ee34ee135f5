// All kernels of one runner.
#pragma once

#include "runtime/tensor/rows/linear_rows.h"
#include "runtime/tensor/rows/pointwise_rows.h"
#include "runtime/tensor/rows/row_rows.h"

namespace s2t {

template <class T, class Run>
const std::vector<KernelRow<T, Run>>& kernel_rows() {
  static const std::vector<KernelRow<T, Run>> table = [] {
    std::vector<KernelRow<T, Run>> all;
    for (const auto& family : {linear_rows<T, Run>(), pointwise_rows<T, Run>(), row_rows<T, Run>()})
      all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return table;
}

template <class T, class Run>
const KernelRow<T, Run>* find_kernel(std::string_view op) {
  for (const auto& row : kernel_rows<T, Run>())
    if (row.op == op) return &row;
  return nullptr;
}

}  // namespace s2t
