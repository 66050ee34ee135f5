// Element types: names as the NCCL and PyTorch user writes them, and sizes in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace s2t {

enum class DType : uint8_t { f32, f16, bf16, f64, f8, i64, i32, boolean };

struct DTypeInfo {
  DType dtype;
  std::string_view name;   // in output, PyTorch's word: "float32"
  std::string_view brief;  // in model files: "f32"
  uint32_t bytes;          // per element
  bool differentiable;     // integers and booleans never carry a gradient
};

std::span<const DTypeInfo> dtypes();
const DTypeInfo& info(DType dtype);

// Accepts the brief and the long name; nullopt if neither.
std::optional<DType> parse_dtype(std::string_view text);

inline uint32_t size_of(DType dtype) {
  return info(dtype).bytes;
}
inline bool is_differentiable(DType dtype) {
  return info(dtype).differentiable;
}

}  // namespace s2t
