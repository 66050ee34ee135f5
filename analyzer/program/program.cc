#include "analyzer/program/program.h"

#include <algorithm>
#include <array>

namespace s2t {
namespace {

constexpr std::array<std::string_view, 5> kPhases{"forward", "backward", "recompute", "grad_sync",
                                                  "step"};

constexpr std::array<std::string_view, 13> kCauses{
    "forward_conversion", "backward_conversion", "regather",  "recompute",  "ring",
    "stage_forward",      "stage_backward",      "data_sync", "model_sync", "tied_sync",
    "parameter_gather",   "parameter_update",    "framework"};

}  // namespace

std::string_view to_string(Phase phase) {
  return kPhases.at(static_cast<size_t>(phase));
}
std::string_view to_string(CauseKind kind) {
  return kCauses.at(static_cast<size_t>(kind));
}

bool contains(const RankSet& set, const Mesh& mesh, Rank rank) {
  return std::all_of(set.along.begin(), set.along.end(), [&](const RankSet::Along& a) {
    const int64_t c = mesh.coordinate(rank, a.atoms);
    return std::find(a.coordinates.begin(), a.coordinates.end(), c) != a.coordinates.end();
  });
}

}  // namespace s2t
