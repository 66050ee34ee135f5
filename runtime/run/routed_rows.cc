#include "runtime/run/routed_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "analyzer/base/text.h"
#include "analyzer/mesh/family.h"

namespace s2t {
namespace {

[[noreturn]] void refuse(const Graph& graph, size_t routing, const std::string& found,
                         const std::string& expected, const std::string& advice) {
  throw UserError(graph.file,
                  {{graph.routing_pointers[routing], found, expected, advice, "routing-rows"}});
}

[[noreturn]] void refuse_unsharded(const Graph& graph, const Forward& forward, size_t routing) {
  const std::string axis = family_of(graph.mesh, forward.routings[routing].atoms, true).name;
  std::string tokens = "tokens";
  for (const Op& op : graph.ops)
    if (op.is("moe_dispatch") && graph.value(op.outputs[0]).routing == routing)
      tokens = graph.value(op.inputs[0]).name;
  refuse(graph, routing,
         fmt::format("{} is routed, but not sharded over {}", quoted(tokens), quoted(axis)),
         fmt::format("tokens that are: each rank of {} routes its own", quoted(axis)),
         fmt::format("Route what a redistribute op with layout {{\"{}\": \"S(0)\"}} makes of {}.",
                     axis, quoted(tokens)));
}

// The tokens of a dispatch: dim 1 of the value that is routed first.
int64_t all_tokens(const Graph& graph, size_t routing) {
  for (const Value& v : graph.values)
    if (v.routing == routing) return v.shape[1];
  throw Fault("a routing that no value uses");
}

Tensor with_rows(const Tensor& dense, size_t rows) {
  Shape shape(dense.shape().begin() + 2, dense.shape().end());
  shape.insert(shape.begin(), static_cast<int64_t>(rows));
  return Tensor(shape, dense.dtype());
}

size_t row_bytes(const Tensor& dense) {
  return elements({dense.shape().begin() + 2, dense.shape().end()}) * size_of(dense.dtype());
}

// Where the row of a slot begins in the dense buffer.
size_t place_of(const Tensor& dense, const std::pair<int64_t, int64_t>& slot, size_t bytes) {
  const auto [expert, token] = slot;
  if (expert < 0 || expert >= dense.shape()[0] || token < 0 || token >= dense.shape()[1])
    throw Fault("a routed row outside of its buffer");
  return static_cast<size_t>(expert * dense.shape()[1] + token) * bytes;
}

void check_rows_fit(const Tensor& rows, size_t slots, size_t bytes) {
  if (rows.byte_size() != slots * bytes) throw Fault("other rows than their routing says");
}

}  // namespace

RoutedRows::RoutedRows(const Graph& graph, const Forward& forward, size_t routing)
    : graph_(graph),
      routing_(forward.routings[routing]),
      token_atoms_(forward.routing_tokens[routing]) {
  if ((token_atoms_ & routing_.atoms) != routing_.atoms) refuse_unsharded(graph, forward, routing);
  blocks_ = graph.mesh.size(token_atoms_);
  tokens_ = all_tokens(graph, routing) / blocks_;
  Routing before = routing_;  // the rows before any was dropped or padded
  RoutingRequest request = graph.routing_requests[routing];
  request.capacity_factor.reset();
  if (const auto error = route(before, request, static_cast<Count>(tokens_)))
    refuse(graph, routing, error->why, "rows as the tokens allow", "");
  for (size_t c = 0; c < before.counts.size(); ++c) {
    int64_t next = 0;
    chosen_.emplace_back();
    for (size_t e = 0; e < before.counts[c].size(); ++e) {
      const auto wanted = static_cast<int64_t>(before.counts[c][e]);
      if (wanted > tokens_)
        refuse(graph, routing,
               fmt::format("source {} sends {} rows to expert {} but holds {} tokens: a token "
                           "would meet the same expert twice",
                           c, wanted, e, tokens_),
               fmt::format("at most {} rows", tokens_), "State other counts, or more tokens.");
      const int64_t kept = std::min(wanted, static_cast<int64_t>(routing_.counts[c][e]));
      std::vector<int64_t> tokens;
      for (int64_t i = 0; i < kept; ++i) tokens.push_back((next + i) % tokens_);
      std::sort(tokens.begin(), tokens.end());
      chosen_.back().push_back(std::move(tokens));
      next += wanted;
    }
  }
}

Tensor RoutedRows::mask() const {
  Tensor mask({tokens_ * blocks_, routing_.experts}, DType::f64);
  std::vector<double> x(static_cast<size_t>(mask.size()), 0);
  for (int64_t block = 0; block < blocks_; ++block) {
    // The source of a block: its digits along the expert-parallel atoms.
    int64_t rest = block, source = 0, weight = 1;
    for (size_t i = graph_.atoms(); i-- > 0;) {
      if (!contains(token_atoms_, AtomIndex(i))) continue;
      const int64_t n = graph_.mesh.atoms()[i].size, digit = rest % n;
      rest /= n;
      if (!contains(routing_.atoms, AtomIndex(i))) continue;
      source += digit * weight;
      weight *= n;
    }
    for (int64_t e = 0; e < routing_.experts; ++e)
      for (const int64_t t : chosen_[static_cast<size_t>(source)][static_cast<size_t>(e)])
        x[static_cast<size_t>((block * tokens_ + t) * routing_.experts + e)] = 1;
  }
  mask.write<double>(x);
  return mask;
}

// Rows of source c for some experts; its tokens begin at `begin` in the local buffer.
std::vector<RoutedRows::Slot> RoutedRows::of_source(int64_t c, int64_t first_expert,
                                                    int64_t experts, int64_t begin,
                                                    bool packed) const {
  std::vector<Slot> slots;
  for (int64_t e = 0; e < experts; ++e) {
    const auto expert = static_cast<size_t>(first_expert + e);
    const auto& tokens = chosen_[static_cast<size_t>(c)][expert];
    const auto rows = static_cast<int64_t>(routing_.counts[static_cast<size_t>(c)][expert]);
    for (int64_t i = 0; i < rows; ++i) {
      const auto kept = static_cast<int64_t>(tokens.size());
      if (i >= kept)
        slots.emplace_back();
      else
        slots.emplace_back(std::pair(e, begin + (packed ? i : tokens[static_cast<size_t>(i)])));
    }
  }
  return slots;
}

std::vector<RoutedRows::Slot> RoutedRows::slots(const Layout& layout, int64_t c) const {
  const AtomSet ep = routing_.atoms;
  const bool by_expert = ep && (layout.sharding(0) & ep) == ep;
  const bool by_token = !ep || (layout.sharding(1) & ep) == ep;
  const int64_t copies = graph_.mesh.size(token_atoms_ & ~ep & ~layout.sharding(1));
  const int64_t local = routing_.experts / routing_.ranks;
  const int64_t sources = by_token ? 1 : routing_.ranks;
  std::vector<Slot> all;
  for (int64_t copy = 0; copy < copies; ++copy)
    for (int64_t s = 0; s < sources; ++s) {
      const int64_t begin = (copy * sources + s) * tokens_;
      const auto rows =
          by_expert ? of_source(s, c * local, local, begin, true)
                    : of_source(by_token ? (ep ? c : 0) : s, 0, routing_.experts, begin, false);
      all.insert(all.end(), rows.begin(), rows.end());
    }
  return all;
}

Tensor pack_rows(const Tensor& dense, const std::vector<RoutedRows::Slot>& slots) {
  Tensor rows = with_rows(dense, slots.size());
  const size_t bytes = row_bytes(dense);
  std::byte* to = rows.writable_bytes();
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i])
      std::memcpy(to + i * bytes, dense.bytes() + place_of(dense, *slots[i], bytes), bytes);
  return rows;
}

void unpack_rows(Tensor& dense, const Tensor& rows, const std::vector<RoutedRows::Slot>& slots) {
  const size_t bytes = row_bytes(dense);
  check_rows_fit(rows, slots.size(), bytes);
  std::byte* to = dense.writable_bytes();
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i])
      std::memcpy(to + place_of(dense, *slots[i], bytes), rows.bytes() + i * bytes, bytes);
}

}  // namespace s2t
