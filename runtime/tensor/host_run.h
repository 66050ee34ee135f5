// The host as a runner of kernel bodies: plain loops, and matrix products without index arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/tensor/bodies/contract.h"

namespace s2t {

// The offsets of all index tuples over some factors, per tensor: what a matrix product walks along.
template <class T>
struct ProductLoops {
  struct Offsets {
    std::vector<int64_t> a, b, y;
  };
  Offsets batch, m, n, k;  // in a b y; a y; b y; a b

  // False if some factor is in none of these four classes.
  bool classify(const Contract<T>& c);
  void run(const Contract<T>& c) const;

 private:
  static void grow(Offsets& o, int64_t size, int64_t a, int64_t b, int64_t y);
  static bool unit(const std::vector<int64_t>& offsets);
  static void dots(const Contract<T>& c, const ProductLoops& l, const T* a, const T* b, T* y);
  static void sums(const Contract<T>& c, const ProductLoops& l, const T* a, const T* b, T* y);
};

class HostRun {
 public:
  template <class Body>
  void items(int64_t n, const Body& body) {
    for (int64_t i = 0; i < n; ++i) body(i);
  }

  template <class T>
  void contract(const Contract<T>& c) {
    ProductLoops<T> loops;
    if (c.terms == 2 && loops.classify(c))
      loops.run(c);
    else
      items(c.items(), c);
  }

  template <class T>
  using Array = std::vector<T>;
  template <class T>
  Array<T> zeros(int64_t n) {
    return Array<T>(static_cast<size_t>(n));
  }
  template <class T>
  Array<T> upload(std::vector<T> elements) {
    return elements;
  }
  template <class T>
  std::vector<T> download(const T* data, int64_t n) {
    return std::vector<T>(data, data + n);
  }
};

}  // namespace s2t
