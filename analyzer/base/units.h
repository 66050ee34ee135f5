// Units as types: a rank is not a tensor id, and neither is a byte count.
//
// Known here: how to number things and how to count bytes without overflow.
// Not known here: what any of the numbers stand for in a model.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace s2t {

// A strongly typed index. `Tag` only tells one kind of index from another.
template <class Tag>
struct Index {
  int32_t value = -1;  // -1: none

  constexpr Index() = default;
  constexpr explicit Index(int32_t v) : value(v) {}
  constexpr explicit Index(size_t v) : value(static_cast<int32_t>(v)) {}
  constexpr bool valid() const { return value >= 0; }
  constexpr size_t at() const { return static_cast<size_t>(value); }
  constexpr auto operator<=>(const Index&) const = default;
};

using Rank = Index<struct RankTag>;           // global rank, 0 .. world-1
using AxisIndex = Index<struct AxisTag>;      // named axis of a mesh
using AtomIndex = Index<struct AtomTag>;      // atomic axis of a mesh
using FamilyIndex = Index<struct FamilyTag>;  // process group family
using TensorId = Index<struct TensorTag>;     // value of a graph
using OpId = Index<struct OpTag>;             // op of a graph, in forward order
using FactorIndex = Index<struct FactorTag>;  // index letter of a bound factor rule

// Bytes and element counts are unsigned 64-bit; these throw `Overflow` instead of wrapping.
using Count = uint64_t;
struct Overflow {};

constexpr Count checked_mul(Count a, Count b) {
  Count r = 0;
  if (__builtin_mul_overflow(a, b, &r)) throw Overflow{};
  return r;
}
constexpr Count checked_add(Count a, Count b) {
  Count r = 0;
  if (__builtin_add_overflow(a, b, &r)) throw Overflow{};
  return r;
}
constexpr Count ceil_div(Count a, Count b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace s2t

template <class Tag>
struct std::hash<s2t::Index<Tag>> {
  size_t operator()(const s2t::Index<Tag>& i) const noexcept {
    return std::hash<int32_t>{}(i.value);
  }
};
