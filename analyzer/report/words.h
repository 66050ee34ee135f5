// Small facts and phrases that several reports need: axes in order, rank lists and ranges.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analyzer/program/program.h"
#include "analyzer/program/selection.h"
#include "analyzer/report/report.h"

namespace s2t {

// Slowest first. Expert axes are those of the second factorisation, the shared ones included; none
// without one.
std::vector<Axis> dense_axes(const Mesh& mesh);
std::vector<Axis> expert_axes(const Mesh& mesh);

// The group of the lowest rank that is in one.
std::vector<Rank> first_group(const Mesh& mesh, const Family& family);

// "0-3, 6"; "all" if these are all of 0 .. n-1 and n > 1.
std::string ranges(const std::vector<int64_t>& ascending, int64_t n = -1);

// The same in at most `width` columns if that holds two numbers: "4, 8, ... 215".
std::string some_of(const std::vector<int64_t>& ascending, size_t width);

// "[0,2]", and above `limit` ranks "[0,8,16, ... 56]".
std::string rank_list(const std::vector<Rank>& ranks, size_t limit = 16);

// "all", "0-3" or, above 64 ranks, "pp=0 ep=1-3".
std::string words(const RankSet& set, const Mesh& mesh);

// "128 x 512", "scalar".
std::string words(const Shape& shape);

// The timeline with its rows named after the pipeline's coordinates ("pp 3"), unless these are all
// the ranks there are ("rank 3"). Throws Fault if the program has none.
Timeline named_timeline(const Program& program);

// What a cause comes down to, whatever the model, in one line.
std::string_view meaning(CauseKind kind);

// The tensor, or "w1 +3" for a bucket of four.
std::string subject(const Event& event);

// Throws UserError (slug out-of-range) if there is no such rank.
void check_rank(const Program& program, std::optional<Rank> rank);

// What the options ask for. Throws UserError if the program has no such rank, stage or module.
Selection selection_of(const Program& program, const ReportOptions& options);

}  // namespace s2t
