// Which rows go to which expert, and what the all-to-alls of a mixture-of-experts layer then carry.
//
// Rows are counted per source rank along the expert-parallel axis and per expert; expert e lives on
// rank e / (experts / n). Dispatch sends rows to the rank of their expert, combine sends them back,
// and their backwards are the transposes. Sources: semantics of torch all_to_all_single split
// sizes; capacity as Megatron core moe_utils: ceil(tokens * top_k / experts * factor).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/base/units.h"
#include "analyzer/mesh/mesh.h"

namespace s2t {

struct Routing {
  std::string name;
  AtomSet atoms = 0;  // of the expert-parallel axis
  int64_t ranks = 1;  // n, its size
  int64_t experts = 1;
  int64_t top_k = 1;
  std::vector<std::vector<Count>> counts;  // [source rank along the axis][expert], rows
  Count dropped = 0;                       // rows over capacity, all sources
  std::vector<std::vector<Count>> rows;    // [source rank][expert's rank]: the sums that are sent

  // Rows a source sends to each rank / a rank receives from each source, on the way to the experts.
  std::vector<Count> dispatch_send(int64_t source) const;
  std::vector<Count> dispatch_recv(int64_t rank) const;
  Count rows_at_source(int64_t source) const;
  Count rows_at_expert(int64_t rank) const;
  int64_t hottest() const;    // rank with the most rows, the lowest such
  double load_ratio() const;  // most rows / least rows of an expert rank; infinity if one has none
};

struct RoutingRequest {
  std::vector<std::vector<int64_t>> counts;  // one row for all sources, or one per source
  std::vector<double> skew;
  std::optional<double> capacity_factor;
  bool pad_to_capacity = false;
  Count least_capacity = 0;  // rows, whatever the factor gives
};

// What is wrong with stated counts or weights, and below which key of the routing: "/counts/1".
struct RoutingError {
  std::string where, why;
};

// Fills `routing.counts` for `tokens` per source rank, or says why not.
std::optional<RoutingError> route(Routing& routing, const RoutingRequest& request, Count tokens);

}  // namespace s2t
