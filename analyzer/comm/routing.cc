#include "analyzer/comm/routing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace s2t {
namespace {

Count sum(const std::vector<Count>& v) {
  return std::accumulate(v.begin(), v.end(), Count{0});
}

// `total` rows in proportion to `weights`, by largest remainder; ties go to the lower expert.
std::vector<Count> apportion(Count total, const std::vector<double>& weights) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<Count> rows;
  std::vector<std::pair<double, size_t>> rest;
  for (size_t e = 0; e < weights.size(); ++e) {
    const double exact = static_cast<double>(total) * weights[e] / all;
    rows.push_back(static_cast<Count>(exact));
    rest.emplace_back(-(exact - std::floor(exact)), e);
  }
  std::sort(rest.begin(), rest.end());
  Count given = sum(rows);
  for (size_t i = 0; given < total; ++i, ++given) ++rows[rest[i % rest.size()].second];
  return rows;
}

// `total` rows over `experts`, equally many to each; those that are left over lie evenly apart: 2 rows
// over 4 experts are 0 1 0 1.
std::vector<Count> balanced(Count total, int64_t experts) {
  const auto n = static_cast<Count>(experts);
  const Count each = total / n, left = total % n;
  std::vector<Count> rows;
  for (Count e = 0; e < n; ++e) rows.push_back(each + (e + 1) * left / n - e * left / n);
  return rows;
}

std::optional<RoutingError> stated_counts(Routing& routing, const RoutingRequest& request,
                                          Count rows) {
  const auto n = static_cast<size_t>(routing.ranks);
  if (request.counts.size() != 1 && request.counts.size() != n)
    return RoutingError{
        "/counts",
        fmt::format("{} rows of counts; expected 1 (for all sources) or {} (one per source rank)",
                    request.counts.size(), n)};
  for (size_t source = 0; source < n; ++source) {
    const size_t stated = request.counts.size() == 1 ? 0 : source;
    const auto& row = request.counts[stated];
    const std::string where = fmt::format("/counts/{}", stated);
    if (row.size() != static_cast<size_t>(routing.experts))
      return RoutingError{where, fmt::format("source {} counts {} experts; expected {}", source,
                                             row.size(), routing.experts)};
    routing.counts.emplace_back(row.begin(), row.end());
    if (sum(routing.counts.back()) != rows)
      return RoutingError{
          where, fmt::format("the counts of source {} sum to {} rows; expected {} (tokens x top_k)",
                             source, sum(routing.counts.back()), rows)};
  }
  return std::nullopt;
}

// A token goes to top_k different experts, so no expert gets more rows than there are tokens.
std::optional<RoutingError> twice(const Routing& routing, const RoutingRequest& request,
                                  Count tokens) {
  for (size_t source = 0; source < routing.counts.size(); ++source)
    for (size_t e = 0; e < routing.counts[source].size(); ++e) {
      const Count rows = routing.counts[source][e];
      if (rows <= tokens) continue;
      return RoutingError{
          request.counts.empty()
              ? std::string("/skew")
              : fmt::format("/counts/{}/{}", request.counts.size() == 1 ? 0 : source, e),
          fmt::format("expert {} gets {} rows of {} tokens: a token would meet it twice", e, rows,
                      tokens)};
    }
  return std::nullopt;
}

void apply_capacity(Routing& routing, const RoutingRequest& request, Count rows) {
  if (!request.capacity_factor) return;
  const auto share = static_cast<Count>(std::ceil(
      static_cast<double>(rows) / static_cast<double>(routing.experts) * *request.capacity_factor));
  const Count capacity = std::max(share, request.least_capacity);
  for (auto& row : routing.counts)
    for (Count& count : row) {
      if (count > capacity) routing.dropped += count - capacity;
      count = request.pad_to_capacity ? capacity : std::min(count, capacity);
    }
}

void sum_by_rank(Routing& routing) {
  const auto local = static_cast<size_t>(routing.experts / routing.ranks);
  routing.rows.clear();
  for (const auto& counts : routing.counts) {
    std::vector<Count> send(static_cast<size_t>(routing.ranks), 0);
    for (size_t e = 0; e < counts.size(); ++e) send[e / local] += counts[e];
    routing.rows.push_back(std::move(send));
  }
}

}  // namespace

std::optional<RoutingError> route(Routing& routing, const RoutingRequest& request, Count tokens) {
  const Count rows = checked_mul(tokens, static_cast<Count>(routing.top_k));
  routing.counts.clear();
  if (!request.counts.empty()) {
    if (auto error = stated_counts(routing, request, rows)) return error;
  } else {
    if (!request.skew.empty() && request.skew.size() != static_cast<size_t>(routing.experts))
      return RoutingError{"/skew",
                          fmt::format("{} weights in \"skew\"; expected {} (one per expert)",
                                      request.skew.size(), routing.experts)};
    const auto row =
        request.skew.empty() ? balanced(rows, routing.experts) : apportion(rows, request.skew);
    routing.counts.assign(static_cast<size_t>(routing.ranks), row);
  }
  if (auto error = twice(routing, request, tokens)) return error;
  apply_capacity(routing, request, rows);
  sum_by_rank(routing);
  return std::nullopt;
}

std::vector<Count> Routing::dispatch_send(int64_t source) const {
  return rows[static_cast<size_t>(source)];
}

std::vector<Count> Routing::dispatch_recv(int64_t rank) const {
  std::vector<Count> recv;
  for (const auto& sent : rows) recv.push_back(sent[static_cast<size_t>(rank)]);
  return recv;
}

Count Routing::rows_at_source(int64_t source) const {
  return sum(rows[static_cast<size_t>(source)]);
}
Count Routing::rows_at_expert(int64_t rank) const {
  Count n = 0;
  for (const auto& sent : rows) n += sent[static_cast<size_t>(rank)];
  return n;
}

int64_t Routing::hottest() const {
  int64_t best = 0;
  for (int64_t r = 1; r < ranks; ++r)
    if (rows_at_expert(r) > rows_at_expert(best)) best = r;
  return best;
}

double Routing::load_ratio() const {
  Count least = std::numeric_limits<Count>::max();
  for (int64_t r = 0; r < ranks; ++r) least = std::min(least, rows_at_expert(r));
  const auto most = static_cast<double>(rows_at_expert(hottest()));
  return least == 0 ? std::numeric_limits<double>::infinity() : most / static_cast<double>(least);
}

}  // namespace s2t
