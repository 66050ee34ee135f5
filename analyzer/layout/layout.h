// Where the parts of a tensor are: one placement per atomic mesh axis.
//
//   R      every rank along the axis holds the whole tensor
//   S(d)   dim d is cut into equal blocks along the axis, in mesh order (slowest atom = major)
//   P(op)  every rank holds a term; combining the terms with op gives the tensor
//
// Shapes here are in elements; "local" means of one rank. Not known here: how one layout becomes
// another (comm/redistribute) and which an op wants (rule/).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/base/units.h"
#include "analyzer/mesh/mesh.h"

namespace s2t {

using Shape = std::vector<int64_t>;

enum class Combiner : uint8_t { sum, max, min };

struct Placement {
  enum class Kind : uint8_t { replicate, shard, partial };
  Kind kind = Kind::replicate;
  int8_t dim = -1;                    // shard only
  Combiner combiner = Combiner::sum;  // partial only

  static Placement R() { return {}; }
  static Placement S(int dim) { return {Kind::shard, static_cast<int8_t>(dim), Combiner::sum}; }
  static Placement P(Combiner c = Combiner::sum) { return {Kind::partial, -1, c}; }

  bool is_replicate() const { return kind == Kind::replicate; }
  bool is_shard() const { return kind == Kind::shard; }
  bool is_shard(int d) const { return kind == Kind::shard && dim == d; }
  bool is_partial() const { return kind == Kind::partial; }
  auto operator<=>(const Placement&) const = default;
};

std::string to_string(Placement p);  // "R", "S(1)", "P", "P(max)"

class Layout {
 public:
  Layout() = default;
  explicit Layout(size_t atoms) : size_(static_cast<uint8_t>(atoms)) {}  // at most kMaxAtoms
  explicit Layout(const Mesh& mesh) : Layout(mesh.atoms().size()) {}

  size_t size() const { return size_; }
  Placement operator[](AtomIndex a) const { return placements_[a.at()]; }
  Placement& operator[](AtomIndex a) { return placements_[a.at()]; }
  auto begin() const { return placements_.begin(); }
  auto end() const { return placements_.begin() + size_; }

  bool any_partial() const;
  AtomSet sharding(int dim) const;  // atoms that shard this dim
  AtomSet partial() const;          // atoms over which it is Partial
  bool operator==(const Layout& o) const { return std::equal(begin(), end(), o.begin(), o.end()); }
  bool operator<(const Layout& o) const {
    return std::lexicographical_compare(begin(), end(), o.begin(), o.end());
  }

 private:
  // In place: there are many layouts, and a mesh has few atoms.
  std::array<Placement, kMaxAtoms> placements_;
  uint8_t size_ = 0;
};

// "tp:S(0) dp:R"; axes that are replicated are left out, all replicated is "R".
std::string to_string(const Layout& layout, const Mesh& mesh);

// The same for many layouts: each is worded once.
class LayoutTexts {
 public:
  explicit LayoutTexts(const Mesh& mesh) : mesh_(mesh) {}
  const std::string& operator()(const Layout& layout);

 private:
  const Mesh& mesh_;
  std::map<Layout, std::string> known_;
};

// Number of ranks that share dim `dim`.
int64_t shards(const Layout& layout, int dim, const Mesh& mesh);

// Shape on one rank. A dim that does not divide is rounded up: whether that is allowed is the
// graph's business (`"uneven": "ceil"`).
Shape local_shape(const Shape& shape, const Layout& layout, const Mesh& mesh);

Count elements(const Shape& shape);  // throws Overflow

}  // namespace s2t
