#include "runtime/run/data.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace s2t {
namespace {

// splitmix64: every 64-bit state gives one well mixed number.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t seed_of(const std::string& name, int64_t microbatch) {
  uint64_t h = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return mix(h + static_cast<uint64_t>(microbatch));
}

// Rows of the smallest table that these integers, however they are reshaped, look up.
int64_t rows_of_tables(const Graph& graph, TensorId value, std::set<TensorId>& seen) {
  int64_t rows = INT64_MAX;
  if (!seen.insert(value).second) return rows;
  for (const Use& use : graph.value(value).uses) {
    const Op& op = graph.op(use.op);
    if (is_integer_operand(*op.def, *op.notation, use.operand)) {
      if (const auto v = op.rule->find("v")) rows = std::min(rows, op.rule->factors[v->at()].size);
    } else {
      for (const TensorId out : op.outputs) rows = std::min(rows, rows_of_tables(graph, out, seen));
    }
  }
  return rows;
}

// Vectors (norm gains, biases) stay near one half, matrices get rows of length about one.
double width_of(const Value& v) {
  if (!v.parameter || v.shape.size() < 2) return 1;
  return std::sqrt(3.0 / static_cast<double>(std::max<int64_t>(v.shape.back(), 1)));
}

}  // namespace

Tensor leaf_data(const Graph& graph, TensorId leaf, int64_t microbatch, bool integers) {
  const Value& v = graph.value(leaf);
  const uint64_t seed = seed_of(v.name, v.parameter ? 0 : microbatch + 1);
  Tensor t(v.shape, v.dtype);
  std::vector<double> x(static_cast<size_t>(t.size()));
  int64_t rows = 2;
  if (!is_differentiable(v.dtype)) {
    std::set<TensorId> seen;
    const int64_t found = rows_of_tables(graph, leaf, seen);
    if (found != INT64_MAX) rows = std::max<int64_t>(found, 1);
  }
  const double width = width_of(v);
  const double centre = v.shape.size() < 2 && v.parameter ? 0.5 : 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const uint64_t r = mix(seed + i);
    const double unit = static_cast<double>(r >> 11) * 0x1p-52 - 1;  // [-1, 1)
    if (!is_differentiable(v.dtype))
      x[i] = static_cast<double>(r % static_cast<uint64_t>(rows));
    else
      x[i] = integers ? static_cast<double>(r % 5) - 2 : centre + width * unit;
  }
  t.write<double>(x);
  return t;
}

}  // namespace s2t
