// Cuts a tensor into the parts that ranks hold, and puts the parts together again.
//
// Known here: what a layout means for the elements of one rank, uneven blocks included (a dim that
// does not divide is cut into ceil-sized blocks; the last ones are smaller or empty). Not known
// here: how a rank comes to hold a part, or what the tensor is.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "analyzer/layout/layout.h"
#include "analyzer/mesh/mesh.h"
#include "runtime/tensor/tensor.h"

namespace s2t {

// The block of a tensor that one rank holds: per dim where it begins and how long it is.
struct Region {
  std::vector<int64_t> begin;
  Shape size;
};
Region region_of(const Shape& shape, const Layout& layout, const Mesh& mesh, Rank rank);

// The rank's part of `full`. Of a Partial value coordinate 0 holds all and the others zero.
Tensor shard(const Tensor& full, const Layout& layout, const Mesh& mesh, Rank rank);

// Grown with zeros, or cut, at the end of every dim.
Tensor resized(const Tensor& t, const Shape& shape);

// A stretch of a tensor's elements in row-major order.
struct Stretch {
  int64_t begin = 0, end = 0;
  auto operator<=>(const Stretch&) const = default;
};

// What one rank holds of a tensor. `owned`: the elements that count, all if empty (a rank that
// shards its optimizer state holds a whole gradient buffer of which one part is right; one that
// owns nothing says {0, 0}).
struct Held {
  Tensor data;
  Layout layout;
  std::vector<Stretch> owned;
};

// Puts the parts of `ranks` together: shards side by side, Partial terms combined, of replicas the
// first; `replica_difference` is the greatest difference of the others to it. Elements that nobody
// owns are NaN. Axes along which `ranks` do not vary (the pipeline) play no part.
struct Assembled {
  Tensor whole;
  double replica_difference = 0;
};
Assembled assemble(const Shape& shape, DType dtype, const Mesh& mesh, std::span<const Rank> ranks,
                   const std::function<const Held&(Rank)>& part);

}  // namespace s2t
