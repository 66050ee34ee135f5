#include "analyzer/program/tally.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "analyzer/program/listing.h"
#include "analyzer/program/owner.h"

namespace s2t {
namespace {

// One event, as often as one rank issues it in a step.
struct Run {
  const Event* event;
  Count times;
};

// Events by pipeline rank; those of no stage go to every pipeline rank.
std::vector<std::vector<Run>> runs_by_pipeline_rank(const Program& program,
                                                    const Selection& selection) {
  std::vector<std::vector<Run>> runs(static_cast<size_t>(program.pipeline_ranks));
  const auto add = [&](std::vector<Run>& mine, const Event& e, int64_t times) {
    if (selection.all() || selects(selection, program, e))
      mine.push_back({&e, static_cast<Count>(times)});
  };
  for (const auto& [key, o] : count_actions(program)) {
    const Stage& stage = program.stages[static_cast<size_t>(key.first)];
    std::vector<Run>& mine = runs[static_cast<size_t>(o.pipeline_rank)];
    for (const Event& e : border(stage, key.second)) add(mine, e, o.times);
    if (is_message(key.second)) continue;
    const bool forward = key.second == SpanKind::forward;
    for (const Segment::Item& item : (forward ? stage.forward : stage.backward).items)
      add(mine, item.event, times_run(item, o.times));
  }
  for (const Event& e : program.after)
    for (std::vector<Run>& mine : runs) add(mine, e, 1);
  return runs;
}

// Launches of point-to-point operations per pipeline rank.
std::vector<Count> launches_by_pipeline_rank(const Program& program) {
  const auto ranks = static_cast<size_t>(program.pipeline_ranks);
  std::vector<Count> launches(ranks, 0);
  std::vector<std::vector<bool>> seen(ranks);  // batches of a rank
  for (const StepAction& a : program.order) {
    const size_t messages = border(program.stages[static_cast<size_t>(a.stage)], a.kind).size();
    if (messages == 0) continue;
    const auto rank = static_cast<size_t>(a.pipeline_rank);
    if (!program.batched_p2p) {
      launches[rank] += messages;
      continue;
    }
    const auto batch = static_cast<size_t>(a.batch + 1);
    if (batch >= seen[rank].size()) seen[rank].resize(2 * batch + 16);
    if (!seen[rank][batch]) ++launches[rank];
    seen[rank][batch] = true;
  }
  return launches;
}

// The coordinates along one run of atoms that ranks are told apart by: those in the same sets are
// one part.
struct Cut {
  std::string axis;
  AtomSet atoms = 0;
  std::vector<std::vector<int64_t>> sets;
};

std::vector<std::vector<int64_t>> parts(const Cut& cut, int64_t size) {
  std::map<std::vector<bool>, std::vector<int64_t>> by_membership;
  std::vector<const std::vector<int64_t>*> in_order;
  std::vector<std::vector<bool>> seen;
  for (int64_t c = 0; c < size; ++c) {
    std::vector<bool> membership;
    for (const auto& set : cut.sets)
      membership.push_back(std::find(set.begin(), set.end(), c) != set.end());
    if (by_membership[membership].empty()) seen.push_back(membership);
    by_membership[membership].push_back(c);
  }
  std::vector<std::vector<int64_t>> result;
  for (const auto& membership : seen) result.push_back(by_membership[membership]);
  return result;
}

void add_cut(std::vector<Cut>& cuts, const RankSet::Along& along) {
  auto at = std::find_if(cuts.begin(), cuts.end(),
                         [&](const Cut& cut) { return cut.atoms == along.atoms; });
  if (at == cuts.end()) at = cuts.insert(cuts.end(), Cut{along.axis, along.atoms, {}});
  if (std::find(at->sets.begin(), at->sets.end(), along.coordinates) == at->sets.end())
    at->sets.push_back(along.coordinates);
}

std::vector<Cut> cuts_of(const Program& program, const std::vector<std::vector<Run>>& runs) {
  std::vector<Cut> cuts;
  if (const Axis* axis = program.mesh.find(program.pipeline_axis))
    for (int64_t c = 0; c < axis->size; ++c) add_cut(cuts, {axis->name, axis->atoms, {c}});
  const AtomSet told_apart = cuts.empty() ? 0 : cuts.front().atoms;  // one by one already
  for (const std::vector<Run>& mine : runs)
    for (const Run& run : mine)
      for (const RankSet::Along& along : run.event->ranks.along)
        if (along.atoms != told_apart) add_cut(cuts, along);
  return cuts;
}

// Visits one rank for every coordinate along `atoms`, all others being 0, ascending.
template <class Visit>
void for_each_corner(const Mesh& mesh, AtomSet atoms, const Visit& visit) {
  const int64_t n = mesh.size(atoms);
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, rank = 0;
    for (size_t a = mesh.atoms().size(); a-- > 0;) {
      if (!contains(atoms, AtomIndex(a))) continue;
      const Atom& atom = mesh.atoms()[a];
      rank += rest % atom.size * atom.stride;
      rest /= atom.size;
    }
    visit(Rank(static_cast<int32_t>(rank)));
  }
}

std::vector<RankClass> empty_classes(const Mesh& mesh, const std::vector<Cut>& cuts) {
  AtomSet atoms = 0;
  std::vector<std::vector<std::vector<int64_t>>> part_lists;
  for (const Cut& cut : cuts) {
    atoms |= cut.atoms;
    part_lists.push_back(parts(cut, mesh.size(cut.atoms)));
  }
  std::vector<RankClass> classes;
  std::map<std::vector<size_t>, size_t> seen;
  const auto each = static_cast<Count>(mesh.world() / mesh.size(atoms));  // ranks of one corner
  for_each_corner(mesh, atoms, [&](Rank rank) {
    RankClass c;
    c.example = rank;
    c.count = each;
    std::vector<size_t> key;
    for (size_t i = 0; i < cuts.size(); ++i) {
      const int64_t at = mesh.coordinate(rank, cuts[i].atoms);
      const auto part =
          std::find_if(part_lists[i].begin(), part_lists[i].end(),
                       [&](const auto& p) { return std::find(p.begin(), p.end(), at) != p.end(); });
      key.push_back(static_cast<size_t>(part - part_lists[i].begin()));
      if (part_lists[i].size() > 1) c.ranks.along.push_back({cuts[i].axis, cuts[i].atoms, *part});
    }
    const auto [at, fresh] = seen.try_emplace(key, classes.size());
    if (fresh)
      classes.push_back(std::move(c));
    else
      classes[at->second].count += each;
  });
  return classes;
}

// Everything a question about one rank needs, computed once.
struct Tally {
  explicit Tally(const Program& p, const Selection& selection = {})
      : program(p), runs(runs_by_pipeline_rank(p, selection)) {}

  size_t pipeline_rank(Rank rank) const {
    const Axis* axis = program.mesh.find(program.pipeline_axis);
    return axis ? static_cast<size_t>(program.mesh.coordinate(rank, axis->atoms)) : 0;
  }

  void fill(RankClass& c, const std::vector<Count>& launches) const {
    const size_t p = pipeline_rank(c.example);
    int64_t launched = -1;  // the last launch of a ring
    for (const Run& run : runs[p]) {
      const Event& e = *run.event;
      if (!contains(e.ranks, program.mesh, c.example)) continue;
      c.operations[static_cast<size_t>(e.op)] += run.times;
      const bool border = !e.ring && (e.op == Collective::send || e.op == Collective::recv);
      const bool joins = e.ring && e.batch == launched;
      if (!border && !joins) c.kernels[kernel_index(e.op)] += run.times;
      launched = e.ring ? e.batch : -1;
    }
    c.kernels[kernel_index(Collective::send)] += launches[p];
  }

  const Program& program;
  std::vector<std::vector<Run>> runs;
};

// Takes the ranks of `other` if it counts the same and differs along one axis only.
bool absorb(RankClass& c, const RankClass& other) {
  if (c.kernels != other.kernels || c.operations != other.operations) return false;
  std::vector<RankSet::Along>& mine = c.ranks.along;
  const std::vector<RankSet::Along>& theirs = other.ranks.along;
  size_t differing = mine.size();
  for (size_t i = 0; i < mine.size(); ++i) {
    if (mine[i] == theirs[i]) continue;
    if (differing != mine.size()) return false;
    differing = i;
  }
  if (differing == mine.size()) return false;
  c.count += other.count;
  std::vector<int64_t>& all = mine[differing].coordinates;
  all.insert(all.end(), theirs[differing].coordinates.begin(), theirs[differing].coordinates.end());
  std::sort(all.begin(), all.end());
  return true;
}

// What tells rows apart; what does not is left at its default.
using Key = std::tuple<size_t, Phase, size_t, Collective, DType, std::optional<int64_t>>;
using Rows = std::map<Key, SummaryRow>;

// Owners in model order, and the place of each.
class Owners {
 public:
  explicit Owners(const std::vector<std::vector<Run>>& runs) {
    for (const std::vector<Run>& mine : runs)
      for (const Run& run : mine) {
        const auto at = places_.try_emplace(owner_of(*run.event), places_.size()).first;
        of_.try_emplace(run.event, at->second);
      }
  }
  size_t place(const Event& event) const { return of_.at(&event); }

 private:
  // What is no part of the model comes last.
  std::map<std::string, size_t> places_{{"pipeline", SIZE_MAX - 1}, {"optimizer", SIZE_MAX}};
  std::unordered_map<const Event*, size_t> of_;
};

struct Grouping {
  By by;
  std::optional<Owners> owners;

  Key key(const Event& e, std::optional<int64_t> stage) const {
    if (by == By::family) return {0, Phase::forward, e.family, {}, {}, {}};
    if (by == By::owner) return {owners->place(e), e.phase, 0, {}, {}, stage};
    return {0, e.phase, e.family, e.op, e.dtype, stage};
  }
};

void add_run(Rows& rows, const Grouping& grouping, const Event& e, Count times,
             std::optional<int64_t> stage) {
  const Volume& v = e.volume;
  const auto [at, fresh] = rows.try_emplace(grouping.key(e, stage));
  SummaryRow& row = at->second;
  if (fresh) {
    row.phase = e.phase;
    row.family = e.family;
    row.op = e.op;
    row.stage = stage;
    row.dtype = e.dtype;
    row.min_input_bytes = row.max_input_bytes = v.input_bytes;
    if (grouping.by == By::owner) row.owner = owner_of(e);
  }
  row.calls += times;
  row.min_input_bytes = std::min(row.min_input_bytes, v.input_bytes);
  row.max_input_bytes = std::max(row.max_input_bytes, v.input_bytes);
  row.input_bytes = checked_add(row.input_bytes, checked_mul(v.input_bytes, times));
  row.output_bytes = checked_add(row.output_bytes, checked_mul(v.output_bytes, times));
  if (grouping.by == By::operation || e.op != Collective::recv)
    row.wire_bytes = checked_add(row.wire_bytes, checked_mul(v.wire_bytes, times));
}

// What a rank moves in a step; ties go to who calls more.
std::pair<Count, Count> load_of(const Rows& rows) {
  Count bytes = 0, calls = 0;
  for (const auto& [key, row] : rows) {
    bytes = checked_add(bytes, checked_add(row.input_bytes, row.output_bytes));
    calls += row.calls;
  }
  return {bytes, calls};
}

Rows rows_of(const Tally& tally, const Grouping& grouping, const RankClass& c) {
  const size_t p = tally.pipeline_rank(c.example);
  std::optional<int64_t> stage;
  if (!tally.program.pipeline_axis.empty()) stage = static_cast<int64_t>(p);
  Rows rows;
  for (const Run& run : tally.runs[p])
    if (contains(run.event->ranks, tally.program.mesh, c.example))
      add_run(rows, grouping, *run.event, run.times, stage);
  for (auto& [key, row] : rows) {
    row.rank = c.example;
    row.wire_of_all = checked_mul(row.wire_bytes, c.count);
  }
  return rows;
}

bool busier(const SummaryRow& a, const SummaryRow& b) {
  const auto load = [](const SummaryRow& r) {
    return std::pair(checked_add(r.input_bytes, r.output_bytes), r.calls);
  };
  return load(a) > load(b);
}

// A later rank's row joins that of an earlier one.
void join_row(SummaryRow& row, const SummaryRow& other, By by) {
  const Count wire_of_all = checked_add(row.wire_of_all, other.wire_of_all);
  if (by == By::family && busier(other, row)) row = other;
  row.wire_of_all = wire_of_all;
}

// Ranks with the same numbers that the selection takes in.
std::vector<RankClass> selected_classes(const Tally& tally, const Selection& selection) {
  if (selection.rank) return {{{}, *selection.rank, 1, {}, {}}};
  std::vector<RankClass> classes =
      empty_classes(tally.program.mesh, cuts_of(tally.program, tally.runs));
  if (selection.stage)
    std::erase_if(classes, [&](const RankClass& c) {
      return static_cast<int64_t>(tally.pipeline_rank(c.example)) != *selection.stage;
    });
  return classes;
}

bool alike(const SummaryRow& a, const SummaryRow& b) {
  const auto key = [](const SummaryRow& r) {
    return std::tuple(r.phase, r.family, r.op, r.dtype, r.owner, r.calls, r.min_input_bytes,
                      r.max_input_bytes, r.input_bytes, r.output_bytes, r.wire_bytes);
  };
  return key(a) == key(b);
}

}  // namespace

Occurrences count_actions(const Program& program) {
  constexpr size_t kKinds = static_cast<size_t>(SpanKind::recv_gradient) + 1;
  std::vector<Occurrence> counted(program.stages.size() * kKinds);
  for (const StepAction& a : program.order) {
    Occurrence& o = counted[static_cast<size_t>(a.stage) * kKinds + static_cast<size_t>(a.kind)];
    o.times += 1;
    o.pipeline_rank = a.pipeline_rank;
    o.peer = a.peer;
  }
  Occurrences all;
  for (size_t i = 0; i < counted.size(); ++i)
    if (counted[i].times > 0)
      all[{static_cast<int32_t>(i / kKinds), static_cast<SpanKind>(i % kKinds)}] = counted[i];
  return all;
}

const std::vector<Event>& border(const Stage& stage, SpanKind kind) {
  static const std::vector<Event> kNone;
  switch (kind) {
    case SpanKind::send_activation:
      return stage.send_activation;
    case SpanKind::recv_activation:
      return stage.recv_activation;
    case SpanKind::send_gradient:
      return stage.send_gradient;
    case SpanKind::recv_gradient:
      return stage.recv_gradient;
    case SpanKind::forward:
    case SpanKind::backward:
      break;
  }
  return kNone;
}

int64_t times_run(const Segment::Item& item, int64_t times) {
  return item.when == Segment::When::every ? times : std::min<int64_t>(times, 1);
}

Count count_events(const Program& program, const Selection& selection) {
  const bool small = program.mesh.world() <= kExplicitRanks;
  const Tally tally(program, selection);
  // Messages are listed rank by rank: how many ranks of a pipeline rank issue this one?
  const auto copies = [&](const Event& e, size_t pipeline_rank) {
    const bool message = e.op == Collective::send || e.op == Collective::recv;
    if (selection.rank) return Count{1};
    if (!message) return static_cast<Count>(spelled_out(program, e));
    if (!small) return Count{1};
    const std::vector<Rank> ranks = ranks_of(program, e);
    return static_cast<Count>(std::count_if(ranks.begin(), ranks.end(), [&](Rank r) {
      return tally.pipeline_rank(r) == pipeline_rank;
    }));
  };
  Count n = 0;
  for (size_t p = 0; p < tally.runs.size(); ++p)
    for (const Run& run : tally.runs[p]) n += run.times * copies(*run.event, p);
  const auto repeated = static_cast<Count>(program.pipeline_ranks - 1);  // of what has no stage
  for (const Event& e : program.after)
    if (selects(selection, program, e)) n -= repeated;
  return n;
}

std::vector<RankClass> rank_classes(const Program& program) {
  const Tally tally(program);
  std::vector<RankClass> classes = empty_classes(program.mesh, cuts_of(program, tally.runs));
  const std::vector<Count> launches = launches_by_pipeline_rank(program);
  for (RankClass& c : classes) tally.fill(c, launches);
  return classes;
}

std::vector<RankClass> merge_alike(std::vector<RankClass> classes, const Mesh& mesh) {
  for (size_t i = 0; i < classes.size(); ++i)
    for (size_t j = i + 1; j < classes.size();)
      if (absorb(classes[i], classes[j])) {
        classes.erase(classes.begin() + static_cast<std::ptrdiff_t>(j));
        j = i + 1;
      } else {
        ++j;
      }
  for (RankClass& c : classes)
    std::erase_if(c.ranks.along, [&](const RankSet::Along& a) {
      return static_cast<int64_t>(a.coordinates.size()) == mesh.size(a.atoms);
    });
  return classes;
}

RankClass class_of(const Program& program, Rank rank) {
  RankClass c;
  c.example = rank;
  Tally(program).fill(c, launches_by_pipeline_rank(program));
  return c;
}

std::vector<SummaryRow> summarize(const Program& program, const Selection& selection, By by) {
  const Tally tally(program, selection);
  Grouping grouping{by, std::nullopt};
  if (by == By::owner) grouping.owners.emplace(tally.runs);
  std::vector<Rows> by_load;
  for (const RankClass& c : selected_classes(tally, selection))
    by_load.push_back(rows_of(tally, grouping, c));
  if (by != By::family)
    std::stable_sort(by_load.begin(), by_load.end(),
                     [](const Rows& a, const Rows& b) { return load_of(a) > load_of(b); });
  Rows all;
  for (const Rows& rows : by_load)
    for (const auto& [key, row] : rows) {
      const auto [at, fresh] = all.try_emplace(key, row);
      if (!fresh) join_row(at->second, row, by);
    }
  std::vector<SummaryRow> rows;
  for (const auto& [key, row] : all) rows.push_back(row);
  return rows;
}

std::vector<StageRows> merge_stages(const std::vector<SummaryRow>& rows) {
  std::vector<StageRows> merged;
  for (const SummaryRow& row : rows) {
    auto same = std::find_if(merged.begin(), merged.end(),
                             [&](const StageRows& m) { return alike(m.row, row); });
    if (same == merged.end()) same = merged.insert(merged.end(), {row, {}});
    if (row.stage) same->stages.push_back(*row.stage);
  }
  return merged;
}

}  // namespace s2t
