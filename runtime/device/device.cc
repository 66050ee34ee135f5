#include "runtime/device/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "runtime/device/float16.h"

namespace s2t {
namespace {

constexpr std::array<std::string_view, 4> kReduceNames{"sum", "max", "min", "avg"};

// How one stored element is read, combined in its natural arithmetic type, and written back.
struct Half {
  using Stored = Float16;
  static float load(Float16 x) { return widen(x); }
  static Float16 store(float x) { return narrow_f16(x); }
};
struct Brain {
  using Stored = BFloat16;
  static float load(BFloat16 x) { return widen(x); }
  static BFloat16 store(float x) { return narrow_bf16(x); }
};
template <class T, class Arithmetic = T>  // integers add as unsigned, so that they wrap
struct Plain {
  using Stored = T;
  static Arithmetic load(T x) { return static_cast<Arithmetic>(x); }
  static T store(Arithmetic x) { return static_cast<T>(x); }
};

template <class Element, class Combine>
void map_pairs(void* accumulator, const void* x, Count count, Combine combine) {
  auto* a = static_cast<typename Element::Stored*>(accumulator);
  const auto* b = static_cast<const typename Element::Stored*>(x);
  for (Count i = 0; i < count; ++i)
    a[i] = Element::store(combine(Element::load(a[i]), Element::load(b[i])));
}

template <class Summed, class Ordered>
void combine_as(void* accumulator, const void* x, Count count, ReduceOp op) {
  const auto add = [](auto a, auto b) { return a + b; };
  const auto most = [](auto a, auto b) { return a < b ? b : a; };
  const auto least = [](auto a, auto b) { return b < a ? b : a; };
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return map_pairs<Summed>(accumulator, x, count, add);
    case ReduceOp::max:
      return map_pairs<Ordered>(accumulator, x, count, most);
    case ReduceOp::min:
      return map_pairs<Ordered>(accumulator, x, count, least);
  }
}

void combine_booleans(void* accumulator, const void* x, Count count, ReduceOp op) {
  const bool both = op == ReduceOp::min;
  map_pairs<Plain<uint8_t, int>>(accumulator, x, count, [both](int a, int b) {
    return both ? (a != 0 && b != 0) : (a != 0 || b != 0);
  });
}

template <class Element>
void divide_as(void* data, Count count, int divisor) {
  auto* a = static_cast<typename Element::Stored*>(data);
  for (Count i = 0; i < count; ++i) {
    const auto x = Element::load(a[i]);
    a[i] = Element::store(x / static_cast<decltype(x)>(divisor));
  }
}

[[noreturn]] void refuse(std::string_view what, DType dtype) {
  throw DeviceError(fmt::format("{} of {} has no meaning here", what, info(dtype).name));
}

}  // namespace

std::string_view name_of(ReduceOp op) {
  return kReduceNames[static_cast<size_t>(op)];
}

void combine_on_host(void* acc, const void* x, Count count, DType dtype, ReduceOp op) {
  if (op == ReduceOp::avg && !is_differentiable(dtype)) refuse("the average", dtype);
  switch (dtype) {
    case DType::f32:
      return combine_as<Plain<float>, Plain<float>>(acc, x, count, op);
    case DType::f64:
      return combine_as<Plain<double>, Plain<double>>(acc, x, count, op);
    case DType::f16:
      return combine_as<Half, Half>(acc, x, count, op);
    case DType::bf16:
      return combine_as<Brain, Brain>(acc, x, count, op);
    case DType::i64:
      return combine_as<Plain<int64_t, uint64_t>, Plain<int64_t>>(acc, x, count, op);
    case DType::i32:
      return combine_as<Plain<int32_t, uint32_t>, Plain<int32_t>>(acc, x, count, op);
    case DType::boolean:
      return combine_booleans(acc, x, count, op);
    case DType::f8:
      refuse("a reduction", dtype);
  }
}

void divide_on_host(void* data, Count count, DType dtype, int divisor) {
  switch (dtype) {
    case DType::f32:
      return divide_as<Plain<float>>(data, count, divisor);
    case DType::f64:
      return divide_as<Plain<double>>(data, count, divisor);
    case DType::f16:
      return divide_as<Half>(data, count, divisor);
    case DType::bf16:
      return divide_as<Brain>(data, count, divisor);
    default:
      refuse("the average", dtype);
  }
}

void Device::combine(void* accumulator, const void* x, Count count, DType dtype, ReduceOp op) {
  if (on_host()) return combine_on_host(accumulator, x, count, dtype, op);
  const size_t bytes = checked_mul(count, size_of(dtype));
  std::vector<std::byte> a(bytes), b(bytes);
  copy_out(a.data(), accumulator, bytes);
  copy_out(b.data(), x, bytes);
  combine_on_host(a.data(), b.data(), count, dtype, op);
  copy_in(accumulator, a.data(), bytes);
}

void Device::divide(void* data, Count count, DType dtype, int divisor) {
  if (on_host()) return divide_on_host(data, count, dtype, divisor);
  std::vector<std::byte> a(checked_mul(count, size_of(dtype)));
  copy_out(a.data(), data, a.size());
  divide_on_host(a.data(), count, dtype, divisor);
  copy_in(data, a.data(), a.size());
}

}  // namespace s2t
