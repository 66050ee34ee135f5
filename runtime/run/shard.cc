#include "runtime/run/shard.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace s2t {
namespace {

// The coordinate of a rank along a set of atoms, slowest atom major, and the size of the set.
std::pair<int64_t, int64_t> block_of(AtomSet atoms, const Mesh& mesh, Rank rank) {
  int64_t block = 0, ways = 1;
  for (size_t i = 0; i < mesh.atoms().size(); ++i) {
    if (!contains(atoms, AtomIndex(i))) continue;
    const int64_t n = mesh.atoms()[i].size;
    block = block * n + mesh.coordinate(rank, AtomIndex(i));
    ways *= n;
  }
  return {block, ways};
}

bool holds_the_term(const Layout& layout, const Mesh& mesh, Rank rank) {
  return block_of(layout.partial(), mesh, rank).first == 0;
}

// Visits the elements of a region: (index in the part, index in the whole).
void for_each_element(const Shape& whole, const Region& region,
                      const std::function<void(int64_t, int64_t)>& visit) {
  const int64_t n = static_cast<int64_t>(elements(region.size));
  std::vector<int64_t> at(whole.size(), 0);
  for (int64_t i = 0; i < n; ++i) {
    int64_t index = 0;
    for (size_t d = 0; d < whole.size(); ++d) index = index * whole[d] + region.begin[d] + at[d];
    visit(i, index);
    for (size_t d = whole.size(); d-- > 0;) {
      if (++at[d] < region.size[d]) break;
      at[d] = 0;
    }
  }
}

std::vector<bool> owned_elements(const Held& held) {
  std::vector<bool> owned;
  if (held.owned.empty()) return owned;
  owned.assign(static_cast<size_t>(held.data.size()), false);
  for (const Stretch& s : held.owned)
    for (int64_t i = s.begin; i < std::min(s.end, held.data.size()); ++i)
      owned[static_cast<size_t>(i)] = true;
  return owned;
}

// Two replicas that own the same elements.
double difference_of(const Held& a, const Held& b) {
  if (a.owned.empty()) return max_abs_difference(a.data, b.data);
  const auto x = a.data.read<double>(), y = b.data.read<double>();
  const std::vector<bool> owned = owned_elements(a);
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (owned[i]) most = std::max(most, std::abs(x[i] - y[i]));
  return most;
}

class Assembly {
 public:
  Assembly(const Shape& shape, DType dtype) : shape_(shape), dtype_(dtype) {
    const auto n = static_cast<size_t>(elements(shape));
    sum_.assign(n, 0);
    seen_.assign(n, 0);
  }

  void add(const Held& held, const Region& region, bool combines_max) {
    const std::vector<double> part = held.data.read<double>();
    const std::vector<bool> owned = owned_elements(held);
    for_each_element(shape_, region, [&](int64_t i, int64_t at) {
      const auto from = static_cast<size_t>(i), to = static_cast<size_t>(at);
      if (!owned.empty() && !owned[from]) return;
      sum_[to] = combines_max && seen_[to] ? std::max(sum_[to], part[from]) : sum_[to] + part[from];
      seen_[to] = 1;
    });
  }

  Tensor take() {
    for (size_t i = 0; i < sum_.size(); ++i)
      if (!seen_[i]) sum_[i] = std::numeric_limits<double>::quiet_NaN();
    Tensor whole(shape_, dtype_ == DType::f64 || !is_differentiable(dtype_) ? dtype_ : DType::f64);
    whole.write<double>(sum_);
    return whole;
  }

 private:
  Shape shape_;
  DType dtype_;
  std::vector<double> sum_;
  std::vector<char> seen_;
};

// Ranks that differ only along replicated axes hold the same: they share this key.
std::vector<int64_t> replica_key(const Layout& layout, const Mesh& mesh, Rank rank) {
  std::vector<int64_t> key;
  for (size_t i = 0; i < layout.size(); ++i)
    if (!layout[AtomIndex(i)].is_replicate()) key.push_back(mesh.coordinate(rank, AtomIndex(i)));
  return key;
}

}  // namespace

Region region_of(const Shape& shape, const Layout& layout, const Mesh& mesh, Rank rank) {
  Region region;
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto [block, ways] = block_of(layout.sharding(static_cast<int>(d)), mesh, rank);
    const int64_t chunk = (shape[d] + ways - 1) / ways;
    region.begin.push_back(std::min(block * chunk, shape[d]));
    region.size.push_back(std::min(chunk, shape[d] - region.begin.back()));
  }
  return region;
}

Tensor shard(const Tensor& full, const Layout& layout, const Mesh& mesh, Rank rank) {
  const Region region = region_of(full.shape(), layout, mesh, rank);
  if (!holds_the_term(layout, mesh, rank)) return Tensor(region.size, full.dtype());
  Tensor part = full;
  for (size_t d = 0; d < region.size.size(); ++d)
    if (region.size[d] != part.shape()[d])
      part = slice(part, static_cast<int>(d), region.begin[d], region.size[d]);
  return part;
}

Tensor resized(const Tensor& t, const Shape& shape) {
  Tensor out = t;
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t now = out.shape()[d];
    if (now > shape[d]) out = slice(out, static_cast<int>(d), 0, shape[d]);
    if (now >= shape[d]) continue;
    Shape grown = out.shape();
    grown[d] = shape[d];
    Tensor wider(grown, out.dtype());
    paste(wider, out, static_cast<int>(d), 0);
    out = std::move(wider);
  }
  return out;
}

Assembled assemble(const Shape& shape, DType dtype, const Mesh& mesh, std::span<const Rank> ranks,
                   const std::function<const Held&(Rank)>& part) {
  Assembly assembly(shape, dtype);
  Assembled out;
  // Owners of different stretches of one buffer are replicas of which each brings its part.
  std::map<std::pair<std::vector<int64_t>, std::vector<Stretch>>, const Held*> first;
  for (const Rank rank : ranks) {
    const Held& held = part(rank);
    const auto [at, fresh] =
        first.emplace(std::make_pair(replica_key(held.layout, mesh, rank), held.owned), &held);
    bool max = false;
    for (const Placement p : held.layout) max |= p.is_partial() && p.combiner == Combiner::max;
    if (fresh)
      assembly.add(held, region_of(shape, held.layout, mesh, rank), max);
    else
      out.replica_difference = std::max(out.replica_difference, difference_of(held, *at->second));
  }
  out.whole = assembly.take();
  return out;
}

}  // namespace s2t
