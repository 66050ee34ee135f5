#include "runtime/run/ring.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analyzer/base/diagnostics.h"

namespace s2t {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

Tensor flat(const Tensor& a, const Tensor& b, DType dtype) {
  std::vector<double> all = a.read<double>();
  const std::vector<double> more = b.read<double>();
  all.insert(all.end(), more.begin(), more.end());
  return Tensor::of({static_cast<int64_t>(all.size())}, dtype, all);
}

// Rows of a tensor times one factor each.
Tensor weighted(const Tensor& t, const std::vector<double>& factors) {
  std::vector<double> x = t.read<double>();
  const size_t row = factors.empty() ? 0 : x.size() / factors.size();
  for (size_t i = 0; i < x.size(); ++i) x[i] *= factors[i / row];
  return Tensor::of(t.shape(), t.dtype(), x);
}

std::vector<double> weights(const std::vector<double>& part, const std::vector<double>& whole) {
  std::vector<double> w(part.size());
  for (size_t i = 0; i < w.size(); ++i)
    w[i] = part[i] == kNothing ? 0 : std::exp(part[i] - whole[i]);
  return w;
}

double log_add(double a, double b) {
  const double top = std::max(a, b);
  return top == kNothing ? top : top + std::log(std::exp(a - top) + std::exp(b - top));
}

int64_t size_of(const OpView& view, const char* factor) {
  return view.rule.factors[view.rule.find(factor)->at()].size;
}

Tensor added(const Tensor& a, const Tensor& b) {
  return add(a, b.cast(a.dtype()).reshaped(a.shape()));
}

}  // namespace

RingAttention::RingAttention(OpCall call, Device& device, int64_t n, int64_t me, Pass pass,
                             RingKind kind, Gather gather)
    : call_(std::move(call)),
      device_(device),
      n_(n),
      me_(me),
      pass_(std::move(pass)),
      kind_(kind),
      gather_(std::move(gather)) {}

Tensor RingAttention::packed(std::span<const Tensor> qkv) const {
  return flat(qkv[1], qkv[2], qkv[1].dtype());
}

// The kernel's positions are those of a block's own keys. Nothing for a block that the mask hides
// from all queries of this rank; by their positions, as another axis may cut them, too.
std::optional<RingAttention::Block> RingAttention::block(std::span<const Tensor> qkv,
                                                         const Tensor& kv, int64_t owner) const {
  Block b{call_, {}, {}};
  int64_t& first = b.call.view.offset[call_.view.rule.find("s")->at()];
  first -= owner * size_of(call_.view, "t");
  const bool hidden = first + size_of(call_.view, "s") <= 0;
  if (flag_or(call_.attributes, "causal", false) && hidden) return std::nullopt;
  const Tensor wide = kv.cast(DType::f64);
  const int64_t keys = qkv[1].size(), values = qkv[2].size();
  b.qkv = {qkv[0].cast(DType::f64), slice(wide, 0, 0, keys).reshaped(qkv[1].shape()),
           slice(wide, 0, keys, values).reshaped(qkv[2].shape())};
  b.lse = lse_of(b);
  return b;
}

// log sum exp of each query's scores.
std::vector<double> RingAttention::lse_of(const Block& b) const {
  const OpView& view = b.call.view;
  const int64_t r = size_of(view, "r"), s = size_of(view, "s"), t = size_of(view, "t");
  const int64_t h = size_of(view, "h"), first = view.offset[view.rule.find("s")->at()];
  const bool causal = flag_or(b.call.attributes, "causal", false);
  const double scale = number_or(b.call.attributes, "scale", 1 / std::sqrt(static_cast<double>(h)));
  const auto q = b.qkv[0].read<double>(), k = b.qkv[1].read<double>();
  std::vector<double> lse(h == 0 ? 0 : q.size() / static_cast<size_t>(h), kNothing);
  for (size_t row = 0; row < lse.size(); ++row) {
    const auto i = static_cast<int64_t>(row);
    const double* keys = k.data() + i / (r * s) * t * h;
    const int64_t seen = causal ? std::min(t, first + i % s + 1) : t;
    for (int64_t at = 0; at < seen; ++at) {
      double dot = 0;
      for (int64_t e = 0; e < h; ++e)
        dot += q[row * static_cast<size_t>(h) + static_cast<size_t>(e)] * keys[at * h + e];
      lse[row] = log_add(lse[row], scale * dot);
    }
  }
  return lse;
}

// What the rank before saw in this step, this one sees in the next.
Tensor RingAttention::next(const Tensor& seen, int64_t step) {
  if (kind_ != RingKind::gathered) return pass_(seen, 1, {true, false});
  if (step == 0) all_ = gather_(seen);
  return slice(all_, 0, (me_ - step - 1 + n_) % n_, 1).reshaped(seen.shape());
}

Tensor RingAttention::forward(std::span<const Tensor> qkv) {
  const DType dtype = qkv[0].dtype();
  std::optional<Tensor> out;
  last_ = packed(qkv);
  for (int64_t i = 0; i < n_; ++i) {
    const Tensor seen = last_;
    if (i < n_ - 1) last_ = next(seen, i);
    const auto b = block(qkv, seen, (me_ - i + n_) % n_);
    if (!b) continue;
    const Tensor o = kernels_of(device_).forward(device_, b->call, b->qkv)[0];
    const std::vector<double> before = out ? lse_ : std::vector<double>(b->lse.size(), kNothing);
    lse_ = before;
    for (size_t row = 0; row < lse_.size(); ++row) lse_[row] = log_add(lse_[row], b->lse[row]);
    const Tensor mine = weighted(o, weights(b->lse, lse_));
    out = out ? add(weighted(*out, weights(before, lse_)), mine) : mine;
  }
  return out->cast(dtype);
}

std::optional<RingAttention::Contribution> RingAttention::contribution(
    std::span<const Tensor> qkv, const Tensor& kv, int64_t owner, const Tensor& o,
    const Tensor& gradient, DType sum) const {
  const auto b = block(qkv, kv, owner);
  if (!b) return std::nullopt;
  const std::vector<std::optional<Tensor>> dout{
      weighted(gradient.cast(DType::f64), weights(b->lse, lse_))};
  const std::vector<Tensor> outputs{o.cast(DType::f64)};
  const auto made =
      kernels_of(device_).backward(device_, b->call, b->qkv, outputs, dout, {true, true, true});
  return Contribution{*made[0], flat(*made[1], *made[2], sum)};
}

// Transformer Engine: the other way round, gradients behind the part that they belong to.
std::pair<Tensor, Tensor> RingAttention::against_the_ring(std::span<const Tensor> qkv,
                                                          const Tensor& o, const Tensor& gradient) {
  const DType dtype = qkv[1].dtype();
  Tensor dq(qkv[0].shape(), DType::f64), kv = last_, dkv(kv.shape(), dtype);
  const int64_t each = kv.size();
  for (int64_t i = 0; i < n_; ++i) {
    const bool first = i == 0, last = i == n_ - 1;
    const Tensor out = first ? kv : last ? dkv : flat(kv, dkv, dtype);
    const Tensor seen = kv;
    Tensor in = out;
    if (n_ > 1) in = pass_(out, -1, {!last, !first});
    dkv = first ? Tensor(kv.shape(), dtype) : slice(in, 0, last ? 0 : each, each);
    if (!last) kv = slice(in, 0, 0, each);
    const auto c = contribution(qkv, seen, (me_ + 1 + i) % n_, o, gradient, dtype);
    if (!c) continue;
    dq = added(dq, c->dq);
    dkv = added(dkv, c->dkv);
  }
  return {dq, dkv};
}

// PyTorch: the same way, and after each part its gradient goes on; after n of them it is home.
std::pair<Tensor, Tensor> RingAttention::along_the_ring(std::span<const Tensor> qkv,
                                                        const Tensor& o, const Tensor& gradient) {
  const DType sum = qkv[1].dtype() == DType::f64 ? DType::f64 : DType::f32;
  Tensor dq(qkv[0].shape(), DType::f64), kv = packed(qkv), dkv(kv.shape(), sum);
  for (int64_t i = 0; i < n_; ++i) {
    const Tensor seen = kv;
    if (i < n_ - 1) kv = next(seen, i);
    if (const auto c = contribution(qkv, seen, (me_ - i + n_) % n_, o, gradient, sum)) {
      dq = added(dq, c->dq);
      dkv = added(dkv, c->dkv);
    }
    if (n_ > 1) dkv = pass_(dkv, 1, {false, true});
  }
  return {dq, dkv};
}

std::vector<std::optional<Tensor>> RingAttention::backward(std::span<const Tensor> qkv,
                                                           const Tensor& o, const Tensor& gradient,
                                                           const std::vector<bool>& wanted) {
  const bool messages = kind_ == RingKind::messages;
  const auto [dq, sum] =
      messages ? against_the_ring(qkv, o, gradient) : along_the_ring(qkv, o, gradient);
  const Tensor dkv = sum.cast(qkv[1].dtype());
  const int64_t keys = qkv[1].size();
  std::vector<std::optional<Tensor>> made{
      dq.cast(qkv[0].dtype()), slice(dkv, 0, 0, keys).reshaped(qkv[1].shape()),
      slice(dkv, 0, keys, dkv.size() - keys).reshaped(qkv[2].shape())};
  for (size_t i = 0; i < made.size(); ++i)
    if (!wanted[i]) made[i].reset();
  return made;
}

}  // namespace s2t
