// Which token goes to which expert, and where routed rows lie in the dense buffers of a rank.
//
// A ragged value [experts, tokens, ...] exists here as a dense buffer in which rows that nobody
// routed are zero; what moves between ranks are the routed rows only. Which tokens those are
// follows from the row counts alone, the same on every rank: expert after expert takes the next
// tokens of its source, round and round, so that a token never meets the same expert twice. Rows
// over capacity are dropped from the end of an expert's run; with padding the missing rows travel
// as zeros. On the experts' side rows lie packed, source after source.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/forward/plan.h"
#include "runtime/tensor/tensor.h"

namespace s2t {

class RoutedRows {
 public:
  // Throws UserError where the counts cannot be realised: an expert with more rows than a source
  // has tokens, or tokens that are not sharded over the expert-parallel axis.
  RoutedRows(const Graph& graph, const Forward& forward, size_t routing);

  // [tokens, experts] of the whole mesh: 1 where the token uses the expert.
  Tensor mask() const;

  // A row of the dense local buffer; nothing where the row is padding.
  using Slot = std::optional<std::pair<int64_t, int64_t>>;  // expert, token: both local
  // Rows that a rank with coordinate `c` along the expert-parallel axis holds in `layout`, in the
  // order in which they travel.
  std::vector<Slot> slots(const Layout& layout, int64_t c) const;

 private:
  std::vector<Slot> of_source(int64_t c, int64_t first_expert, int64_t experts, int64_t begin,
                              bool packed) const;

  const Graph& graph_;
  const Routing& routing_;
  AtomSet token_atoms_ = 0;
  int64_t tokens_ = 0;  // of one source
  int64_t blocks_ = 1;  // sources times other axes that shard tokens
  std::vector<std::vector<std::vector<int64_t>>> chosen_;  // [source][expert] -> its tokens
};

// The rows of a dense buffer, one after the other, and back. `row_shape` is that of one row.
Tensor pack_rows(const Tensor& dense, const std::vector<RoutedRows::Slot>& slots);
void unpack_rows(Tensor& dense, const Tensor& rows, const std::vector<RoutedRows::Slot>& slots);

}  // namespace s2t
