#include "analyzer/program/listing.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analyzer/program/tally.h"

namespace s2t {
namespace {

RankSet only(const Mesh& mesh, Rank rank) {
  RankSet set;
  for (const Axis& axis : mesh.axes())
    if (!axis.part && !axis.expert && axis.atoms != 0)
      set.along.push_back({axis.name, axis.atoms, {mesh.coordinate(rank, axis.atoms)}});
  return set;
}

// Numbers events, calls and batches in the order in which they come.
class Lister {
 public:
  Lister(const Program& program, const EventVisitor& visit) : program_(program), visit_(visit) {
    if (const Axis* axis = program.mesh.find(program.pipeline_axis)) pipeline_ = axis;
  }

  void step() {
    const Occurrences total = count_actions(program_);
    Occurrences done;
    for (const StepAction& action : program_.order) {
      const auto key = std::pair(action.stage, action.kind);
      Occurrence& now = done[key];
      now.times += 1;
      if (is_message(action.kind))
        messages(action, 1);
      else
        compute(action, now.times, total.at(key).times);
    }
    after();
  }

  void summary() {
    const Occurrences total = count_actions(program_);
    locate(total);
    const auto stages = static_cast<int32_t>(program_.stages.size());
    for (int32_t s = 0; s < stages; ++s)
      for (const SpanKind kind :
           {SpanKind::recv_activation, SpanKind::forward, SpanKind::send_activation})
        once(total, s, kind);
    for (int32_t s = stages; s-- > 0;)
      for (const SpanKind kind :
           {SpanKind::recv_gradient, SpanKind::backward, SpanKind::send_gradient})
        once(total, s, kind);
    next_id_ = after_;
    after();
  }

 private:
  using ActionKey = std::pair<int32_t, SpanKind>;  // of a stage
  // Ids at which the first and the last run of an action begin in the whole listing.
  struct Runs {
    int64_t first = -1, last = -1;
  };

  // A segment's numbers of calls and launches -> those of one run of it.
  struct Run {
    std::map<int64_t, int64_t> calls, launches;
  };

  const Stage& stage(int32_t s) const { return program_.stages[static_cast<size_t>(s)]; }

  // Follows the ids of the whole listing without spelling it out.
  void locate(const Occurrences& total) {
    struct Walk {
      Runs runs;
      int64_t done = 0, total = 0, first = 0, middle = 0, last = 0;  // events of such a run
    };
    constexpr size_t kKinds = static_cast<size_t>(SpanKind::recv_gradient) + 1;
    std::vector<Walk> walks(program_.stages.size() * kKinds);
    const auto walk = [&](int32_t s, SpanKind kind) -> Walk& {
      return walks[static_cast<size_t>(s) * kKinds + static_cast<size_t>(kind)];
    };
    for (const auto& [key, o] : total) {
      const StepAction action{key.second, key.first, -1, -1, o.pipeline_rank, o.peer};
      Walk& w = walk(key.first, key.second);
      w.total = o.times;
      w.first = events_of_run(action, 1, o.times);
      w.middle = o.times > 2 ? events_of_run(action, 2, o.times) : 0;
      w.last = events_of_run(action, o.times, o.times);
    }
    int64_t next = 0;
    for (const StepAction& action : program_.order) {
      Walk& w = walk(action.stage, action.kind);
      if (++w.done == 1) w.runs.first = next;
      w.runs.last = next;
      next += w.done == 1 ? w.first : w.done == w.total ? w.last : w.middle;
    }
    for (const auto& [key, o] : total) runs_[key] = walk(key.first, key.second).runs;
    after_ = next;
  }

  int64_t events_of_run(const StepAction& action, int64_t n, int64_t total) const {
    int64_t count = 0;
    if (is_message(action.kind)) {
      for (const Event& message : border(stage(action.stage), action.kind))
        count += copies(message, action);
      return count;
    }
    for (const Segment::Item& item : segment(action))
      if (runs(item, n, total)) count += copies(item.event, action);
    return count;
  }

  // A small world lists messages rank by rank.
  int64_t copies(const Event& kept, const StepAction& action) const {
    const bool message = kept.ring || is_message(action.kind);
    if (!message) return spelled_out(program_, kept);
    if (program_.mesh.world() > kExplicitRanks) return 1;
    Event event = kept;
    complete(event, action, 1);
    return static_cast<int64_t>(ranks_of(program_, event).size());
  }

  // Whether an item is in the n-th of `total` runs of its segment.
  static bool runs(const Segment::Item& item, int64_t n, int64_t total) {
    return (item.when != Segment::When::first || n == 1) &&
           (item.when != Segment::When::last || n == total);
  }

  void once(const Occurrences& total, int32_t s, SpanKind kind) {
    const auto found = total.find({s, kind});
    if (found == total.end()) return;
    const Occurrence& o = found->second;
    const StepAction action{kind, s, -1, -1, o.pipeline_rank, o.peer};
    int64_t first = runs_.at(found->first).first, last = runs_.at(found->first).last;
    next_id_ = first;
    if (is_message(kind)) return messages(action, o.times);
    Run run;
    for (const Segment::Item& item : segment(action)) {
      next_id_ = item.when == Segment::When::last ? last : first;
      emit(stamped(item, action, times_run(item, o.times)), run);
      const int64_t n = copies(item.event, action);
      if (runs(item, 1, o.times)) first += n;
      if (runs(item, o.times, o.times)) last += n;
    }
  }

  const std::vector<Segment::Item>& segment(const StepAction& action) const {
    const Stage& s = stage(action.stage);
    return (action.kind == SpanKind::forward ? s.forward : s.backward).items;
  }

  // The n-th of `total` runs of a segment.
  void compute(const StepAction& action, int64_t n, int64_t total) {
    Run run;
    for (const Segment::Item& item : segment(action))
      if (runs(item, n, total)) emit(stamped(item, action, 1), run);
  }

  Event stamped(const Segment::Item& item, const StepAction& action, int64_t repeat) const {
    Event event = item.event;
    complete(event, action, repeat);
    const bool sync = event.phase == Phase::grad_sync || event.phase == Phase::step;
    if (sync && item.when != Segment::When::every) event.microbatch.reset();
    return event;
  }

  void complete(Event& event, const StepAction& action, int64_t repeat) const {
    event.repeat = repeat;
    if (action.microbatch >= 0) event.microbatch = action.microbatch;
    event.stage = action.stage;
    place(program_, event);
    if (pipeline_) restrict(event.ranks, action.pipeline_rank);
  }

  void restrict(RankSet& ranks, int64_t coordinate) const {
    for (const RankSet::Along& a : ranks.along)
      if (a.atoms == pipeline_->atoms) return;
    ranks.along.push_back({pipeline_->name, pipeline_->atoms, {coordinate}});
  }

  void messages(const StepAction& action, int64_t repeat) {
    for (const Event& message : border(stage(action.stage), action.kind)) {
      Event event = message;
      complete(event, action, repeat);
      event.peer_offset = action.peer - action.pipeline_rank;
      const int64_t launch = program_.batched_p2p ? action.batch : launches_--;
      emit_message(event, launch, action.pipeline_rank);
    }
  }

  void emit_message(Event& event, int64_t launch, int64_t pipeline_rank) {
    if (program_.mesh.world() <= kExplicitRanks) return per_rank(event, launch);
    event.call = next_call_++;
    number_batch(event, {pipeline_rank, launch});
    publish(event);
  }

  // One event per global rank, which names its peer.
  void per_rank(Event& event, int64_t launch) {
    const std::vector<Rank> ranks = ranks_of(program_, event);
    const int64_t call = next_call_++;
    for (const Rank rank : ranks) {
      event.call = call;
      event.ranks = only(program_.mesh, rank);
      event.peer = peer_of(program_, event, rank);
      number_batch(event, {rank.value, launch});
      publish(event);
    }
  }

  void number_batch(Event& event, std::pair<int64_t, int64_t> launch) {
    event.batch = -1;
    if (event.repeat > 1 || !event.microbatch) return;  // a summary: many batches
    const auto [at, fresh] = batches_.try_emplace(launch, next_batch_);
    if (fresh) ++next_batch_;
    event.batch = at->second;
  }

  void after() {
    Run run;
    for (Event event : program_.after) {
      place(program_, event);
      emit(std::move(event), run);
    }
  }

  void emit(Event event, Run& run) {
    if (event.ring) {
      const auto [launch, fresh] = run.launches.try_emplace(event.batch, launches_);
      launches_ -= fresh;
      return emit_message(event, launch->second, event.stage.value_or(0));
    }
    const auto [at, fresh] = run.calls.try_emplace(event.call, next_call_);
    if (event.call < 0 || fresh) at->second = next_call_++;
    event.call = at->second;
    if (spelled_out(program_, event) > 1) return per_coordinate(event);
    publish(event);
  }

  // One event per place in the group, each with what it sends to its neighbour.
  void per_coordinate(const Event& event) {
    const Family& group = program_.families.at(event.family);
    const int64_t n = spelled_out(program_, event), offset = *event.peer_offset;
    for (int64_t c = 0; c < n; ++c) {
      Event one = event;
      one.peer_offset.reset();
      one.splits = Splits{1, std::vector<Count>(static_cast<size_t>(n)), {}};
      one.splits->recv = one.splits->send;
      one.splits->send[static_cast<size_t>((c + offset + n) % n)] = event.volume.elements;
      one.splits->recv[static_cast<size_t>((c - offset + n) % n)] = event.volume.elements;
      one.ranks.along.push_back({group.name, group.atoms, {c}});
      publish(one);
    }
  }

  void publish(Event& event) {
    event.id = next_id_++;
    visit_(event);
  }

  const Program& program_;
  const EventVisitor& visit_;
  const Axis* pipeline_ = nullptr;
  std::map<ActionKey, Runs> runs_;
  int64_t after_ = 0;  // id of what follows the last action
  int64_t next_id_ = 0, next_call_ = 0, next_batch_ = 0;
  int64_t launches_ = -1;  // numbers of launches that no action shares
  std::map<std::pair<int64_t, int64_t>, int64_t> batches_;  // (rank, launch) -> the listing's
};

}  // namespace

void for_each_event(const Program& program, const EventVisitor& visit) {
  Lister(program, visit).step();
}

void for_each_summary_event(const Program& program, const EventVisitor& visit) {
  Lister(program, visit).summary();
}

std::vector<Event> list_events(const Program& program) {
  std::vector<Event> events;
  for_each_event(program, [&](const Event& e) { events.push_back(e); });
  return events;
}

std::vector<Event> events_of(const Program& program, Rank rank) {
  std::vector<Event> events;
  for_each_event(program, [&](const Event& e) {
    if (contains(e.ranks, program.mesh, rank)) events.push_back(e);
  });
  return events;
}

int64_t spelled_out(const Program& program, const Event& kept) {
  if (kept.op != Collective::all_to_all || !kept.peer_offset) return 1;
  const int64_t n = program.mesh.size(program.families.at(kept.family).atoms);
  return n <= kExplicitRanks ? n : 1;
}

void place(const Program& program, Event& event) {
  event.chunk.reset();
  if (program.pipeline_axis.empty()) event.stage.reset();
  if (!event.stage) return;
  event.chunk = *event.stage / program.pipeline_ranks;
  event.stage = *event.stage % program.pipeline_ranks;
}

Rank peer_of(const Program& program, const Event& event, Rank rank) {
  const std::vector<Rank> group = program.mesh.group_of(program.families.at(event.family), rank);
  const auto n = static_cast<int64_t>(group.size());
  const auto me = std::find(group.begin(), group.end(), rank) - group.begin();
  return group.at(static_cast<size_t>((me + event.peer_offset.value() + n) % n));
}

std::vector<Rank> ranks_of(const Program& program, const Event& event) {
  std::vector<Rank> ranks;
  for (int64_t r = 0; r < program.mesh.world(); ++r)
    if (const Rank rank(static_cast<int32_t>(r)); contains(event.ranks, program.mesh, rank))
      ranks.push_back(rank);
  return ranks;
}

}  // namespace s2t
