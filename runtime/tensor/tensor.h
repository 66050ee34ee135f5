// A tensor on one rank: shape, element type, contiguous row-major bytes.
//
// A value type. Copies share their bytes until one of them is written, so passing tensors around is
// cheap; two threads may hold copies, but one tensor object belongs to one thread. Elements are
// kept as the dtype says (bf16, f16 and f8 as 2, 2 and 1 bytes, rounded to nearest even), so
// `byte_size()` is what a collective would move. Not known here: ranks, layouts, ops.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analyzer/base/dtype.h"
#include "analyzer/layout/layout.h"

namespace s2t {

class Tensor {
 public:
  Tensor() : Tensor(Shape{}, DType::f32) {}
  Tensor(Shape shape, DType dtype);  // zeros
  // Elements in row-major order, rounded to `dtype`. Fault if their number is not the shape's.
  static Tensor of(Shape shape, DType dtype, std::span<const double> elements);
  static Tensor of(Shape shape, DType dtype, std::initializer_list<double> elements);

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  int64_t size() const { return size_; }  // elements
  size_t byte_size() const { return bytes_->size(); }

  const std::byte* bytes() const { return bytes_->data(); }
  std::byte* writable_bytes();

  // Conversions of all elements. T is float, double or int64_t; writing rounds to the dtype.
  template <class T>
  std::vector<T> read() const;
  template <class T>
  void write(std::span<const T> elements);

  double at(int64_t i) const;  // element i in row-major order
  Tensor cast(DType dtype) const;
  Tensor reshaped(Shape shape) const;

  bool operator==(const Tensor& other) const;  // shape, dtype and every bit

 private:
  Shape shape_;
  DType dtype_;
  int64_t size_ = 1;
  std::shared_ptr<std::vector<std::byte>> bytes_;
};

// Indices [begin, begin + count) of one dim, and the reverse: writes `part` there.
Tensor slice(const Tensor& t, int dim, int64_t begin, int64_t count);
void paste(Tensor& into, const Tensor& part, int dim, int64_t begin);

// Elementwise, in the dtype of `a`. Fault if shapes differ.
Tensor add(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);

// max |a - b| over all elements; infinity if shapes differ or either holds a NaN.
double max_abs_difference(const Tensor& a, const Tensor& b);

// Half the distance from 1 to the next number of a floating type.
double unit_roundoff(DType dtype);

std::string to_string(const Tensor& t);  // "float32[2,3] {1, 2, ...}", at most eight elements

}  // namespace s2t
