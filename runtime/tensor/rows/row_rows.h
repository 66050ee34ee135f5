// Ops that work row by row: norms, softmax, embedding, attention, rotary positions, losses.
#pragma once

#include "runtime/tensor/bodies/attention.h"
#include "runtime/tensor/bodies/lookup.h"
#include "runtime/tensor/bodies/loss.h"
#include "runtime/tensor/bodies/norm.h"
#include "runtime/tensor/rows/frame.h"

namespace s2t {

template <class T, class Run, bool centre, bool shifted = centre>
struct NormOp {  // layer_norm (centred; with beta, or without) and rms_norm
  template <class Body>
  static void with_statistics(const KernelFrame<T>& f, Run& run, Body body) {
    const int64_t rows = f.rows(0), d = f.size_of("d");
    auto mean = run.template zeros<T>(rows), rstd = run.template zeros<T>(rows);
    run.items(rows, RowStatistics<T>{f.in[0], mean.data(), rstd.data(), d,
                                     T(number_or(f.attributes, "eps", 1e-5)), centre});
    body(rows, d, mean.data(), rstd.data());
  }
  static void forward(const KernelFrame<T>& f, Run& run) {
    with_statistics(f, run, [&](int64_t rows, int64_t d, const T* mean, const T* rstd) {
      const T* beta = shifted ? f.in[2] : nullptr;
      run.items(rows, NormForward<T>{f.in[0], f.in[1], beta, mean, rstd, f.out[0], d});
    });
  }
  static void backward(const KernelFrame<T>& f, Run& run) {
    with_statistics(f, run, [&](int64_t rows, int64_t d, const T* mean, const T* rstd) {
      if (f.din[0])
        run.items(rows, NormInputBackward<T>{f.in[0], f.in[1], mean, rstd, f.dout[0], f.din[0], d,
                                             centre});
      run.items(d, NormWeightBackward<T>{f.in[0], mean, rstd, f.dout[0], f.din[1],
                                         shifted ? f.din[2] : nullptr, d, rows});
    });
  }
};

template <class T, class Run>
struct SoftmaxOp {
  static void forward(const KernelFrame<T>& f, Run& run) {
    run.items(f.rows(0), SoftmaxForward<T>{f.in[0], f.out[0], f.size_of("d")});
  }
  static void backward(const KernelFrame<T>& f, Run& run) {
    if (f.din[0])
      run.items(f.rows(0), SoftmaxBackward<T>{f.out[0], f.dout[0], f.din[0], f.size_of("d")});
  }
};

template <class T, class Run>
struct EmbeddingOp {
  static void forward(const KernelFrame<T>& f, Run& run) {
    run.items(f.result_size(0), Lookup<T>{f.ids[0], f.in[1], f.out[0], f.size_of("d"),
                                          f.size_of("v"), f.offset_of("v")});
  }
  static void backward(const KernelFrame<T>& f, Run& run) {
    if (f.din[1])
      run.items(f.size_of("d"),
                LookupBackward<T>{f.ids[0], f.dout[0], f.din[1], f.operand_size(0), f.size_of("d"),
                                  f.size_of("v"), f.offset_of("v")});
  }
};

enum class Scores : uint8_t { plain, biased, with_sinks };

template <class T, class Run, Scores scores = Scores::plain>
struct AttentionOp {  // attention, attention_biased and attention_with_sinks
  static AttentionShape<T> shape(const KernelFrame<T>& f) {
    const int64_t h = f.size_of("h"), r = f.size_of("r");
    const double scale = number_or(f.attributes, "scale", 1 / std::sqrt(static_cast<double>(h)));
    return {f.size_of("g") * r,
            r,
            f.size_of("s"),
            f.size_of("t"),
            h,
            f.size_of("j"),
            f.offset_of("s"),
            flag_or(f.attributes, "causal", false),
            T(scale),
            scores == Scores::biased ? f.in[3] : nullptr,
            scores == Scores::with_sinks ? f.in[3] : nullptr};
  }
  static int64_t queries(const KernelFrame<T>& f) { return f.rows(0); }
  static int64_t keys(const KernelFrame<T>& f) { return f.rows(1); }
  static void forward(const KernelFrame<T>& f, Run& run) {
    run.items(queries(f),
              AttentionForward<T>{shape(f), f.in[0], f.in[1], f.in[2], f.out[0], nullptr});
  }
  static void backward(const KernelFrame<T>& f, Run& run) {
    const AttentionShape<T> a = shape(f);
    const T *q = f.in[0], *k = f.in[1], *v = f.in[2], *grad = f.dout[0];
    auto o = run.template zeros<T>(f.result_size(0));
    auto lse = run.template zeros<T>(queries(f)), delta = run.template zeros<T>(queries(f));
    run.items(queries(f), AttentionForward<T>{a, q, k, v, o.data(), lse.data()});
    // delta is of the output that was kept: in a ring that of all keys, not of this block's.
    run.items(queries(f), AttentionQueryBackward<T>{a, q, k, v, f.out[0], grad, lse.data(),
                                                    delta.data(), f.din[0]});
    if (f.din[1] || f.din[2])
      run.items(keys(f), AttentionKeyBackward<T>{a, q, k, v, grad, lse.data(), delta.data(),
                                                 f.din[1], f.din[2]});
    if (scores == Scores::plain || !f.din[3]) return;
    const int64_t batches = f.size_of("b");
    if (scores == Scores::biased)
      run.items(f.operand_size(3), AttentionBiasBackward<T>{a, q, k, v, grad, lse.data(),
                                                            delta.data(), f.din[3], batches});
    else
      run.items(a.heads, AttentionSinkBackward<T>{a, lse.data(), delta.data(), f.din[3], batches});
  }
};

template <class T, class Run>
struct RopeOp {
  static void rotate(const KernelFrame<T>& f, Run& run, const T* x, T* y, int direction) {
    run.items(f.rows(0), Rope<T>{x, y, f.size_of("s"), f.size_of("h"), f.offset_of("s"),
                                 number_or(f.attributes, "base", 10000), direction});
  }
  static void forward(const KernelFrame<T>& f, Run& run) { rotate(f, run, f.in[0], f.out[0], 1); }
  static void backward(const KernelFrame<T>& f, Run& run) {
    if (f.din[0]) rotate(f, run, f.dout[0], f.din[0], -1);
  }
};

template <class T, class Run>
struct SquaresOp {  // mean_square and mse
  static const T* target(const KernelFrame<T>& f) { return f.in.size() > 1 ? f.in[1] : nullptr; }
  static void forward(const KernelFrame<T>& f, Run& run) {
    run.items(1, Squares<T>{f.in[0], target(f), f.out[0], f.operand_size(0), mean_count(f)});
  }
  static void backward(const KernelFrame<T>& f, Run& run) {
    run.items(f.operand_size(0),
              SquaresBackward<T>{f.in[0], target(f), f.dout[0], f.din[0],
                                 f.din.size() > 1 ? f.din[1] : nullptr, mean_count(f)});
  }
};

template <class T, class Run>
struct RowMaxOp {
  static void forward(const KernelFrame<T>& f, Run& run) {
    run.items(f.rows(0), RowMax<T>{f.in[0], f.out[0], f.size_of("v")});
  }
};

template <class T, class Run>
struct PickOp {
  static void forward(const KernelFrame<T>& f, Run& run) {
    run.items(f.rows(0), Pick<T>{f.in[0], f.ids[1], f.out[0], f.size_of("v"), f.offset_of("v")});
  }
  static void backward(const KernelFrame<T>& f, Run& run) {
    if (f.din[0])
      run.items(f.rows(0),
                PickBackward<T>{f.ids[1], f.dout[0], f.din[0], f.size_of("v"), f.offset_of("v")});
  }
};

template <class T, class Run>
struct ShiftedExpOp {
  static void forward(const KernelFrame<T>& f, Run& run) {
    run.items(f.operand_size(0), ShiftedExp<T>{f.in[0], f.in[1], f.out[0], f.size_of("v")});
  }
  static void backward(const KernelFrame<T>& f, Run& run) {  // d exp(z - max) = exp(z - max) dz
    if (f.din[0]) run.items(f.operand_size(0), Product<T>{f.out[0], f.dout[0], f.din[0]});
  }
};

template <class T, class Run>
struct RowLossOp {
  static void forward(const KernelFrame<T>& f, Run& run) {
    run.items(f.result_size(0), RowLoss<T>{f.in[0], f.in[1], f.in[2], f.out[0]});
  }
  static void backward(const KernelFrame<T>& f, Run& run) {
    run.items(f.result_size(0), RowLossBackward<T>{f.in[0], f.dout[0], f.din[0], f.din[2]});
  }
};

template <class T, class Run>
std::vector<KernelRow<T, Run>> row_rows() {
  return {
      row<NormOp<T, Run, true>, T, Run>("layer_norm"),
      row<NormOp<T, Run, true, false>, T, Run>("layer_norm_unshifted"),
      row<NormOp<T, Run, false>, T, Run>("rms_norm"),
      row<SoftmaxOp<T, Run>, T, Run>("softmax"),
      row<EmbeddingOp<T, Run>, T, Run>("embedding"),
      row<AttentionOp<T, Run>, T, Run>("attention"),
      row<AttentionOp<T, Run, Scores::biased>, T, Run>("attention_biased"),
      row<AttentionOp<T, Run, Scores::with_sinks>, T, Run>("attention_with_sinks"),
      row<RopeOp<T, Run>, T, Run>("rope"),
      row<SquaresOp<T, Run>, T, Run>("mean_square"),
      row<SquaresOp<T, Run>, T, Run>("mse"),
      {"ce_max", &RowMaxOp<T, Run>::forward, nullptr},
      row<PickOp<T, Run>, T, Run>("ce_pick"),
      row<ShiftedExpOp<T, Run>, T, Run>("ce_exp"),
      row<RowLossOp<T, Run>, T, Run>("ce_rows"),
  };
}

}  // namespace s2t
