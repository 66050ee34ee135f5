// Turns index lines into the strides of the generic evaluator.
#pragma once

#include <algorithm>
#include <vector>

#include "analyzer/base/diagnostics.h"
#include "runtime/tensor/bodies/contract.h"
#include "runtime/tensor/rows/frame.h"

namespace s2t {

// Stride of a contiguous tensor along every factor of the rule, 0 where it lacks it.
inline std::vector<int64_t> factor_strides(const BoundRule& rule, const Dims& tensor) {
  std::vector<int64_t> strides(rule.factors.size(), 0);
  int64_t stride = 1;
  for (size_t d = tensor.size(); d-- > 0;)
    for (size_t i = tensor[d].size(); i-- > 0;) {
      const size_t f = tensor[d][i].at();
      strides[f] += stride;
      stride *= rule.factors[f].size;
    }
  return strides;
}

template <class T>
struct Term {
  const T* data;
  const Dims* dims;
};

// The factors of `dims`, then those that only the terms have.
template <class T>
std::vector<size_t> factor_order(const Dims& dims, const std::vector<Term<T>>& terms,
                                 size_t& leading) {
  std::vector<size_t> order;
  const auto take = [&](const Dims& tensor) {
    for (const auto& dim : tensor)
      for (const FactorIndex f : dim)
        if (std::find(order.begin(), order.end(), f.at()) == order.end()) order.push_back(f.at());
  };
  take(dims);
  leading = order.size();
  for (const Term<T>& t : terms) take(*t.dims);
  return order;
}

// out[dims] += alpha * sum over the other factors of the product of the terms.
template <class T>
Contract<T> plan_contract(const BoundRule& rule, T* out, const Dims& dims,
                          const std::vector<Term<T>>& terms, T alpha = 1) {
  size_t leading = 0;
  const std::vector<size_t> order = factor_order(dims, terms, leading);
  if (order.size() > kMaxFactors || terms.size() > kMaxTerms)
    throw Fault("contract: at most 16 factors and 6 operands");
  Contract<T> c;
  c.out_factors = static_cast<int>(leading);
  c.factors = static_cast<int>(order.size());
  c.terms = static_cast<int>(terms.size());
  c.out = out;
  c.alpha = alpha;
  const auto out_strides = factor_strides(rule, dims);
  for (size_t i = 0; i < order.size(); ++i) {
    c.size[i] = rule.factors[order[i]].size;
    c.out_stride[i] = out_strides[order[i]];
  }
  for (size_t t = 0; t < terms.size(); ++t) {
    const auto strides = factor_strides(rule, *terms[t].dims);
    c.in[t] = terms[t].data;
    for (size_t i = 0; i < order.size(); ++i) c.in_stride[t][i] = strides[order[i]];
  }
  return c;
}

}  // namespace s2t
