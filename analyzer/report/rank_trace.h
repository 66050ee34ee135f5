// What one rank issues, in its order, as traces want it: with global ranks for peers and a number
// for every process group.
//
// Known here: ranks and groups. Not known here: any format.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "analyzer/program/program.h"
#include "analyzer/report/report.h"

namespace s2t {

// A process group that a rank is in.
struct RankGroup {
  size_t family = 0;
  int64_t number = 0;  // from 1, in creation order over all ranks: the same on every member
  std::vector<Rank> ranks;
};

// Groups of more than one rank, in creation order.
std::vector<RankGroup> groups_of(const Program& program, Rank rank);

// The rank of the options. Throws UserError (slug bad-option) if they name none.
Rank traced_rank(const Program& program, const ReportOptions& options, std::string_view format);

using RankVisitor = std::function<void(const Event&, std::optional<Rank> peer)>;

// The rank's events that the options select.
void for_each_traced(const Program& program, const ReportOptions& options, Rank rank,
                     const RankVisitor& visit);

}  // namespace s2t
