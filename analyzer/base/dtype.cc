#include "analyzer/base/dtype.h"

#include <array>

namespace s2t {
namespace {

constexpr std::array<DTypeInfo, 8> kDTypes{{
    {DType::f32, "float32", "f32", 4, true},
    {DType::f16, "float16", "f16", 2, true},
    {DType::bf16, "bfloat16", "bf16", 2, true},
    {DType::f64, "float64", "f64", 8, true},
    {DType::f8, "float8", "f8", 1, true},
    {DType::i64, "int64", "i64", 8, false},
    {DType::i32, "int32", "i32", 4, false},
    {DType::boolean, "bool", "bool", 1, false},
}};

}  // namespace

std::span<const DTypeInfo> dtypes() {
  return kDTypes;
}

const DTypeInfo& info(DType dtype) {
  return kDTypes[static_cast<size_t>(dtype)];
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (const DTypeInfo& d : kDTypes)
    if (text == d.name || text == d.brief) return d.dtype;
  return std::nullopt;
}

}  // namespace s2t
