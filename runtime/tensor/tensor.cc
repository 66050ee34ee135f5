#include "runtime/tensor/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "analyzer/base/diagnostics.h"
#include "runtime/device/float16.h"
#include "runtime/tensor/float8.h"

namespace s2t {
namespace {

// A stored element as a number: how each dtype is kept, told once for all conversions.
template <class Stored>
struct Plain {
  using Raw = Stored;
  template <class T>
  static T load(Raw r) {
    return static_cast<T>(r);
  }
  template <class T>
  static Raw store(T x) {
    return static_cast<Raw>(x);
  }
};

template <class Stored, Stored (*narrow)(float)>
struct Small {
  using Raw = Stored;
  template <class T>
  static T load(Raw r) {
    return static_cast<T>(widen(r));
  }
  template <class T>
  static Raw store(T x) {
    return narrow(static_cast<float>(x));
  }
};

template <class F>
auto with_storage(DType dtype, F f) {
  switch (dtype) {
    case DType::f32:
      return f(Plain<float>{});
    case DType::f64:
      return f(Plain<double>{});
    case DType::bf16:
      return f(Small<BFloat16, narrow_bf16>{});
    case DType::f16:
      return f(Small<Float16, narrow_f16>{});
    case DType::f8:
      return f(Small<Float8, narrow_f8>{});
    case DType::i64:
      return f(Plain<int64_t>{});
    case DType::i32:
      return f(Plain<int32_t>{});
    case DType::boolean:
      return f(Plain<uint8_t>{});
  }
  throw Fault("tensor: unknown dtype");
}

void check_same_shape(const Tensor& a, const Tensor& b, const char* what) {
  if (a.shape() != b.shape())
    throw Fault(fmt::format("{}: shapes [{}] and [{}] differ", what, fmt::join(a.shape(), ","),
                            fmt::join(b.shape(), ",")));
}

// Copies the block of `part` between a tensor of dim size `whole` and one that holds only the part.
struct Blocks {
  size_t outer = 1, whole = 0, part = 0, begin = 0;  // in bytes but for outer

  Blocks(const Shape& shape, DType dtype, int dim, int64_t b, int64_t count) {
    const auto d = static_cast<size_t>(dim);
    size_t inner = size_of(dtype);
    for (size_t i = 0; i < d; ++i) outer *= static_cast<size_t>(shape[i]);
    for (size_t i = d + 1; i < shape.size(); ++i) inner *= static_cast<size_t>(shape[i]);
    whole = inner * static_cast<size_t>(shape[d]);
    part = inner * static_cast<size_t>(count);
    begin = inner * static_cast<size_t>(b);
  }
};

void check_range(const Tensor& t, int dim, int64_t begin, int64_t count) {
  if (dim < 0 || static_cast<size_t>(dim) >= t.shape().size() || begin < 0 || count < 0 ||
      begin + count > t.shape()[static_cast<size_t>(dim)])
    throw Fault(fmt::format("slice [{}, {}) of dim {} is outside [{}]", begin, begin + count, dim,
                            fmt::join(t.shape(), ",")));
}

template <class Op>
Tensor combine(const Tensor& a, const Tensor& b, const char* what, Op op) {
  check_same_shape(a, b, what);
  Tensor out(a.shape(), a.dtype());
  if (is_differentiable(a.dtype())) {
    auto x = a.read<double>();
    const auto y = b.read<double>();
    for (size_t i = 0; i < x.size(); ++i) x[i] = op(x[i], y[i]);
    out.write<double>(x);
  } else {
    auto x = a.read<int64_t>();
    const auto y = b.read<int64_t>();
    for (size_t i = 0; i < x.size(); ++i) x[i] = op(x[i], y[i]);
    out.write<int64_t>(x);
  }
  return out;
}

}  // namespace

Tensor::Tensor(Shape shape, DType dtype) : shape_(std::move(shape)), dtype_(dtype) {
  size_ = static_cast<int64_t>(elements(shape_));
  bytes_ = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(size_) * size_of(dtype));
}

Tensor Tensor::of(Shape shape, DType dtype, std::span<const double> elements) {
  Tensor t(std::move(shape), dtype);
  t.write(elements);
  return t;
}

Tensor Tensor::of(Shape shape, DType dtype, std::initializer_list<double> elements) {
  return of(std::move(shape), dtype, std::span<const double>(elements.begin(), elements.size()));
}

std::byte* Tensor::writable_bytes() {
  if (bytes_.use_count() != 1) bytes_ = std::make_shared<std::vector<std::byte>>(*bytes_);
  return bytes_->data();
}

template <class T>
std::vector<T> Tensor::read() const {
  std::vector<T> out(static_cast<size_t>(size_));
  with_storage(dtype_, [&](auto storage) {
    using Raw = typename decltype(storage)::Raw;
    const auto* raw = reinterpret_cast<const Raw*>(bytes());
    for (size_t i = 0; i < out.size(); ++i) out[i] = storage.template load<T>(raw[i]);
  });
  return out;
}

template <class T>
void Tensor::write(std::span<const T> elements) {
  if (static_cast<int64_t>(elements.size()) != size_)
    throw Fault(fmt::format("tensor of {} elements written with {}", size_, elements.size()));
  with_storage(dtype_, [&](auto storage) {
    using Raw = typename decltype(storage)::Raw;
    auto* raw = reinterpret_cast<Raw*>(writable_bytes());
    for (size_t i = 0; i < elements.size(); ++i) raw[i] = storage.template store<T>(elements[i]);
  });
}

template std::vector<float> Tensor::read() const;
template std::vector<double> Tensor::read() const;
template std::vector<int64_t> Tensor::read() const;
template void Tensor::write(std::span<const float>);
template void Tensor::write(std::span<const double>);
template void Tensor::write(std::span<const int64_t>);

double Tensor::at(int64_t i) const {
  if (i < 0 || i >= size_) throw Fault("tensor: element out of range");
  return with_storage(dtype_, [&](auto storage) {
    using Raw = typename decltype(storage)::Raw;
    return storage.template load<double>(reinterpret_cast<const Raw*>(bytes())[i]);
  });
}

Tensor Tensor::cast(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor out(shape_, dtype);
  if (!is_differentiable(dtype_) && !is_differentiable(dtype))
    out.write<int64_t>(read<int64_t>());
  else
    out.write<double>(read<double>());
  return out;
}

Tensor Tensor::reshaped(Shape shape) const {
  if (static_cast<int64_t>(elements(shape)) != size_) throw Fault("tensor: reshape changes size");
  Tensor out = *this;
  out.shape_ = std::move(shape);
  return out;
}

bool Tensor::operator==(const Tensor& other) const {
  return shape_ == other.shape_ && dtype_ == other.dtype_ && *bytes_ == *other.bytes_;
}

Tensor slice(const Tensor& t, int dim, int64_t begin, int64_t count) {
  check_range(t, dim, begin, count);
  Shape shape = t.shape();
  shape[static_cast<size_t>(dim)] = count;
  Tensor out(shape, t.dtype());
  const Blocks b(t.shape(), t.dtype(), dim, begin, count);
  std::byte* to = out.writable_bytes();
  for (size_t o = 0; b.part != 0 && o < b.outer; ++o)
    std::memcpy(to + o * b.part, t.bytes() + o * b.whole + b.begin, b.part);
  return out;
}

void paste(Tensor& into, const Tensor& part, int dim, int64_t begin) {
  const int64_t count = part.shape().at(static_cast<size_t>(dim));
  check_range(into, dim, begin, count);
  if (into.dtype() != part.dtype()) throw Fault("paste: dtypes differ");
  const Blocks b(into.shape(), into.dtype(), dim, begin, count);
  if (b.outer * b.part != part.byte_size()) throw Fault("paste: shapes do not match");
  std::byte* to = into.writable_bytes();
  for (size_t o = 0; b.part != 0 && o < b.outer; ++o)
    std::memcpy(to + o * b.whole + b.begin, part.bytes() + o * b.part, b.part);
}

Tensor add(const Tensor& a, const Tensor& b) {
  return combine(a, b, "add", [](auto x, auto y) { return x + y; });
}

Tensor maximum(const Tensor& a, const Tensor& b) {
  return combine(a, b, "maximum", [](auto x, auto y) { return x < y ? y : x; });
}

double max_abs_difference(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return std::numeric_limits<double>::infinity();
  const auto x = a.read<double>(), y = b.read<double>();
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i]) continue;  // infinities of one sign are equal
    const double d = std::fabs(x[i] - y[i]);
    if (!(d <= worst)) worst = std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
  }
  return worst;
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::ldexp(1, -53);
    case DType::f32:
      return std::ldexp(1, -24);
    case DType::f16:
      return std::ldexp(1, -11);
    case DType::bf16:
      return std::ldexp(1, -8);
    default:  // f8, e4m3
      return std::ldexp(1, -4);
  }
}

std::string to_string(const Tensor& t) {
  std::string text = fmt::format("{}[{}] {{", info(t.dtype()).name, fmt::join(t.shape(), ","));
  for (int64_t i = 0; i < std::min<int64_t>(t.size(), 8); ++i)
    text += fmt::format("{}{}", i ? ", " : "", t.at(i));
  return text + (t.size() > 8 ? ", ...}" : "}");
}

}  // namespace s2t
