#include "analyzer/report/rank_trace.h"

#include <fmt/format.h>

#include "analyzer/program/listing.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

// The place of a rank's group among those of its family, which are ordered by their first rank.
int64_t place_of(const Mesh& mesh, const Family& family, Rank rank) {
  const AtomSet all = (AtomSet{1} << mesh.atoms().size()) - 1;
  return mesh.coordinate(rank, all & ~family.atoms);
}

std::optional<Rank> known_peer(const Program& program, const Event& event, Rank rank) {
  if (event.peer || !event.peer_offset || event.op == Collective::all_to_all) return event.peer;
  return peer_of(program, event, rank);
}

}  // namespace

std::vector<RankGroup> groups_of(const Program& program, Rank rank) {
  std::vector<RankGroup> groups;
  int64_t first = 1;
  for (size_t f = 0; f < program.families.size(); ++f) {
    const Family& family = program.families[f];
    std::vector<Rank> ranks = program.mesh.group_of(family, rank);
    if (ranks.size() > 1)
      groups.push_back({f, first + place_of(program.mesh, family, rank), std::move(ranks)});
    first += program.mesh.group_count(family);
  }
  return groups;
}

Rank traced_rank(const Program& program, const ReportOptions& options, std::string_view format) {
  check_rank(program, options.rank);
  if (options.rank) return *options.rank;
  throw UserError(
      "shape2trace",
      {{"--rank", fmt::format("{} is the trace of one rank, and none is named", format),
        fmt::format("--rank 0 to --rank {}", program.mesh.world() - 1), "", "bad-option"}});
}

void for_each_traced(const Program& program, const ReportOptions& options, Rank rank,
                     const RankVisitor& visit) {
  Selection selection = selection_of(program, options);
  selection.rank = rank;
  const auto each = options.summary ? for_each_summary_event : for_each_event;
  each(program, [&](const Event& event) {
    if (selects(selection, program, event)) visit(event, known_peer(program, event, rank));
  });
}

}  // namespace s2t
