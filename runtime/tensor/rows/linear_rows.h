// Ops that are a sum of products or a sum of broadcasts: dense, shape, means, MoE.
#pragma once

#include <string>
#include <utility>

#include "runtime/tensor/bodies/lookup.h"
#include "runtime/tensor/rows/contract_plan.h"

namespace s2t {

// y = alpha * sum of products of all operands. The gradient of operand i is the same index line
// with operand i and the result swapped.
template <class T, class Run>
struct ProductOp {
  static void forward(const KernelFrame<T>& f, Run& run) { scaled_forward(f, run, T(1)); }
  static void backward(const KernelFrame<T>& f, Run& run) { scaled_backward(f, run, T(1)); }

  static void scaled_forward(const KernelFrame<T>& f, Run& run, T alpha) {
    std::vector<Term<T>> terms;
    for (size_t i = 0; i < f.in.size(); ++i) terms.push_back({f.in[i], &f.rule().operands[i]});
    run.contract(plan_contract(f.rule(), f.out[0], f.rule().results[0], terms, alpha));
  }
  static void scaled_backward(const KernelFrame<T>& f, Run& run, T alpha) {
    for (size_t i = 0; i < f.din.size(); ++i) {
      if (!f.din[i]) continue;
      std::vector<Term<T>> terms{{f.dout[0], &f.rule().results[0]}};
      for (size_t j = 0; j < f.in.size(); ++j)
        if (j != i) terms.push_back({f.in[j], &f.rule().operands[j]});
      run.contract(plan_contract(f.rule(), f.din[i], f.rule().operands[i], terms, alpha));
    }
  }
};

template <class T, class Run>
struct ScaleOp {
  static T alpha(const KernelFrame<T>& f) { return T(number_or(f.attributes, "factor", 1)); }
  static void forward(const KernelFrame<T>& f, Run& run) {
    ProductOp<T, Run>::scaled_forward(f, run, alpha(f));
  }
  static void backward(const KernelFrame<T>& f, Run& run) {
    ProductOp<T, Run>::scaled_backward(f, run, alpha(f));
  }
};

template <class T, class Run>
struct MeanOp {
  static void forward(const KernelFrame<T>& f, Run& run) {
    ProductOp<T, Run>::scaled_forward(f, run, T(1 / mean_count(f)));
  }
  static void backward(const KernelFrame<T>& f, Run& run) {
    ProductOp<T, Run>::scaled_backward(f, run, T(1 / mean_count(f)));
  }
};

// y = x0 + sign x1, each broadcast over the factors it lacks.
template <class T, class Run, int sign = 1>
struct SumOp {
  static void forward(const KernelFrame<T>& f, Run& run) {
    for (size_t i = 0; i < f.in.size(); ++i)
      run.contract(plan_contract<T>(f.rule(), f.out[0], f.rule().results[0],
                                    {{f.in[i], &f.rule().operands[i]}}, i == 0 ? 1 : sign));
  }
  static void backward(const KernelFrame<T>& f, Run& run) {
    for (size_t i = 0; i < f.din.size(); ++i)
      if (f.din[i])
        run.contract(plan_contract<T>(f.rule(), f.din[i], f.rule().operands[i],
                                      {{f.dout[0], &f.rule().results[0]}}, i == 0 ? 1 : sign));
  }
};

template <class T, class Run>
// buf[e s m] = x[s m] where route[s e] is not 0; and the way back, y[s m] = sum of buf there.
struct DispatchOp {
  static void masked(const KernelFrame<T>& f, Run& run, T* out, const Dims& dims, Term<T> term) {
    auto mask = run.template zeros<T>(f.operand_size(1));
    run.items(f.operand_size(1), Routed<T>{f.in[1], mask.data()});
    run.contract(
        plan_contract<T>(f.rule(), out, dims, {term, {mask.data(), &f.rule().operands[1]}}));
  }
  static void forward(const KernelFrame<T>& f, Run& run) {
    masked(f, run, f.out[0], f.rule().results[0], {f.in[0], &f.rule().operands[0]});
  }
  static void backward(const KernelFrame<T>& f, Run& run) {
    if (f.din[0]) masked(f, run, f.din[0], f.rule().operands[0], {f.dout[0], &f.rule().results[0]});
  }
};

// The reverse copy: what was read is written.
template <class T>
Contract<T> reversed(Contract<T> c, T* to, const T* from) {
  std::swap(c.out_stride, c.in_stride[0]);
  c.out = to;
  c.in[0] = from;
  return c;
}

// Output i is the part of x at index i of the whole factor p ("x[p! *] -> y[*]").
template <class T, class Run>
struct UnstackOp {
  static Contract<T> part(const KernelFrame<T>& f, T* y, const T* x) {
    Contract<T> c =
        plan_contract<T>(f.rule(), y, f.rule().results[0], {{x, &f.rule().operands[0]}});
    c.factors = c.out_factors;  // one index of p, no sum over it
    return c;
  }
  static int64_t begin(const KernelFrame<T>& f, size_t i) {
    const size_t p = f.rule().find(find_op("unstack")->outputs).value().at();
    return factor_strides(f.rule(), f.rule().operands[0])[p] * static_cast<int64_t>(i);
  }
  static void forward(const KernelFrame<T>& f, Run& run) {
    for (size_t i = 0; i < f.out.size(); ++i)
      run.contract(part(f, f.out[i], f.in[0] + begin(f, i)));
  }
  static void backward(const KernelFrame<T>& f, Run& run) {
    for (size_t i = 0; f.din[0] && i < f.dout.size(); ++i)
      run.contract(reversed<T>(part(f, nullptr, nullptr), f.din[0] + begin(f, i), f.dout[i]));
  }
};

template <class T, class Run>
struct ConcatOp {  // y[* c] holds x0[* c0], x1[* c1], ... side by side
  static Contract<T> part(const KernelFrame<T>& f, size_t i) {
    const int64_t rows = f.rows(i), width = f.size_of("c" + std::to_string(i));
    Contract<T> c;
    c.out_factors = c.factors = 2;
    c.terms = 1;
    c.size[0] = rows;
    c.size[1] = width;
    c.out_stride[0] = f.size_of("c");
    c.in_stride[0][0] = width;
    c.out_stride[1] = c.in_stride[0][1] = 1;
    return c;
  }
  static void forward(const KernelFrame<T>& f, Run& run) {
    T* to = f.out[0];
    for (size_t i = 0; i < f.in.size(); ++i) {
      Contract<T> c = part(f, i);
      c.out = to;
      c.in[0] = f.in[i];
      run.contract(c);
      to += c.size[1];
    }
  }
  static void backward(const KernelFrame<T>& f, Run& run) {
    const T* from = f.dout[0];
    for (size_t i = 0; i < f.din.size(); ++i) {
      const Contract<T> c = part(f, i);
      if (f.din[i]) run.contract(reversed<T>(c, f.din[i], from));
      from += c.size[1];
    }
  }
};

template <class T, class Run>
std::vector<KernelRow<T, Run>> linear_rows() {
  using Product = ProductOp<T, Run>;
  std::vector<KernelRow<T, Run>> rows;
  for (const char* op : {"linear", "matmul", "einsum", "mul", "identity", "cast", "ce_sum",
                         "moe_expert", "moe_combine", "moe_probs", "moe_weigh", "reshape",
                         "transpose", "redistribute", "detach", "transfer"})
    rows.push_back(row<Product, T, Run>(op));
  for (const char* op : {"bias_add", "add", "add_positions", "moe_bias"})
    rows.push_back(row<SumOp<T, Run>, T, Run>(op));
  rows.push_back(row<SumOp<T, Run, -1>, T, Run>("sub"));
  rows.push_back(row<ScaleOp<T, Run>, T, Run>("scale"));
  rows.push_back(row<MeanOp<T, Run>, T, Run>("mean"));
  for (const char* op : {"moe_dispatch", "moe_collect"})
    rows.push_back(row<DispatchOp<T, Run>, T, Run>(op));
  rows.push_back(row<UnstackOp<T, Run>, T, Run>("unstack"));
  rows.push_back(row<UnstackOp<T, Run>, T, Run>("split"));
  rows.push_back(row<UnstackOp<T, Run>, T, Run>("first"));
  rows.push_back(row<ConcatOp<T, Run>, T, Run>("concat"));
  return rows;
}

}  // namespace s2t
