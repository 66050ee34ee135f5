// Ops that work element by element: activations, gated pairs, dropout.
#pragma once

#include "analyzer/base/diagnostics.h"
#include "runtime/tensor/bodies/activation.h"
#include "runtime/tensor/rows/frame.h"

namespace s2t {

template <class F, class T, class Run>
struct UnaryOp {
  static void forward(const KernelFrame<T>& f, Run& run) {
    run.items(f.operand_size(0), UnaryForward<F, T>{f.in[0], f.out[0]});
  }
  static void backward(const KernelFrame<T>& f, Run& run) {
    if (f.din[0]) run.items(f.operand_size(0), UnaryBackward<F, T>{f.in[0], f.dout[0], f.din[0]});
  }
};

template <class F, class T, class Run>
struct GatedOp {
  static void forward(const KernelFrame<T>& f, Run& run) {
    run.items(f.operand_size(0), GatedForward<F, T>{f.in[0], f.in[1], f.out[0]});
  }
  static void backward(const KernelFrame<T>& f, Run& run) {
    run.items(f.operand_size(0),
              GatedBackward<F, T>{f.in[0], f.in[1], f.dout[0], f.din[0], f.din[1]});
  }
};

template <class T, class Run>
struct DropoutOp {
  static WholePlace place(const KernelFrame<T>& f) {
    const Dims& dims = f.rule().operands[0];
    if (dims.size() > kMaxDims) throw Fault("dropout: at most 12 dims");
    WholePlace p;
    p.rank = static_cast<int>(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      const size_t factor = dims[d][0].at();
      p.size[d] = f.rule().factors[factor].size;
      p.offset[d] = f.view.offset[factor];
      p.global[d] = f.view.global[factor];
    }
    return p;
  }
  static void apply(const KernelFrame<T>& f, Run& run, const T* x, T* y) {
    run.items(f.operand_size(0),
              Dropout<T>{x, y, place(f), static_cast<uint64_t>(number_or(f.attributes, "seed", 0)),
                         number_or(f.attributes, "p", 0.1)});
  }
  static void forward(const KernelFrame<T>& f, Run& run) { apply(f, run, f.in[0], f.out[0]); }
  static void backward(const KernelFrame<T>& f, Run& run) {
    if (f.din[0]) apply(f, run, f.dout[0], f.din[0]);
  }
};

template <class T, class Run>
std::vector<KernelRow<T, Run>> pointwise_rows() {
  return {
      row<DropoutOp<T, Run>, T, Run>("dropout"),
      row<UnaryOp<Gelu, T, Run>, T, Run>("gelu"),
      row<UnaryOp<GeluTanh, T, Run>, T, Run>("gelu_tanh"),
      row<UnaryOp<Relu, T, Run>, T, Run>("relu"),
      row<UnaryOp<ReluSquared, T, Run>, T, Run>("relu_squared"),
      row<UnaryOp<Sigmoid, T, Run>, T, Run>("sigmoid"),
      row<UnaryOp<Silu, T, Run>, T, Run>("silu"),
      row<UnaryOp<Tanh, T, Run>, T, Run>("tanh"),
      row<GatedOp<Silu, T, Run>, T, Run>("swiglu"),
      row<GatedOp<Gelu, T, Run>, T, Run>("geglu"),
  };
}

}  // namespace s2t
