#include "analyzer/schedule/simulate.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <tuple>

#include "analyzer/base/diagnostics.h"

namespace s2t {
namespace {

struct Span {
  double start = 0, end = 0;
};
using Spans = std::vector<std::vector<Span>>;

size_t ix(int i) {
  return static_cast<size_t>(i);
}

// The receive that each computation reads, by position in the rank's list; -1: none (first and last
// stage, or the value never leaves the rank).
std::vector<int> inputs_of(const ActionList& list) {
  std::map<std::tuple<bool, int, int>, int> received;
  std::vector<int> input(list.size(), -1);
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    const Action& a = list[ix(i)];
    const bool gradient = a.kind == ActionKind::recv_gradient || a.kind == ActionKind::backward;
    if (is_recv(a.kind)) received[{gradient, a.stage, a.microbatch}] = i;
    if (!is_compute(a.kind)) continue;
    const auto found = received.find({gradient, a.stage, a.microbatch});
    if (found == received.end()) continue;
    input[ix(i)] = found->second;
    received.erase(found);
  }
  return input;
}

class Simulation {
 public:
  Simulation(const PipelinePlan& plan, const RankedActions& ranks, const Pairing& pairing,
             const Costs& costs)
      : ranks_(ranks),
        pairing_(pairing),
        overlapped_(plan.batching == Batching::overlapped),
        forward_(costs.forward / plan.chunks),
        backward_(costs.backward / plan.chunks),
        p2p_(costs.p2p),
        rank_(ranks.size()) {
    for (size_t r = 0; r < ranks.size(); ++r) {
      spans_.emplace_back(ranks[r].size());
      rank_[r].moved.resize(ranks[r].size());
      rank_[r].posted.resize(ranks[r].size(), -1);
      if (overlapped_) rank_[r].input = inputs_of(ranks[r]);
      work_.push_back(static_cast<int>(r));
    }
  }

  Spans run() {
    while (!work_.empty()) {
      const int r = work_.back();
      work_.pop_back();
      advance(r);
    }
    for (size_t r = 0; r < ranks_.size(); ++r)
      if (rank_[r].next < ranks_[r].size()) throw Fault("pipeline simulation is stuck");
    return std::move(spans_);
  }

 private:
  struct RankState {
    size_t next = 0;   // first action not yet issued
    double clock = 0;  // when it can issue
    int open = 0;      // operations of the current launch that have not moved (blocking launches)
    double done = 0;   // when those that have moved were done
    int wait = -1;     // position of the receive the next computation waits for
    std::vector<char> moved;
    std::vector<double> posted;  // when the operation was issued; -1: not yet
    std::vector<int> input;
  };

  void advance(int r) {
    RankState& s = rank_[ix(r)];
    const ActionList& list = ranks_[ix(r)];
    while (s.open == 0 && s.next < list.size()) {
      if (is_compute(list[s.next].kind)) {
        if (!compute(r)) return;
      } else {
        post(r);
      }
    }
  }

  // False if the input has not moved yet.
  bool compute(int r) {
    RankState& s = rank_[ix(r)];
    double start = s.clock;
    if (const int from = overlapped_ ? s.input[s.next] : -1; from >= 0) {
      s.wait = s.moved[ix(from)] ? -1 : from;
      if (s.wait >= 0) return false;
      start = std::max(start, spans_[ix(r)][ix(from)].end);
    }
    const bool forward = ranks_[ix(r)][s.next].kind == ActionKind::forward;
    s.clock = start + (forward ? forward_ : backward_);
    spans_[ix(r)][s.next++] = {start, s.clock};
    return true;
  }

  void post(int r) {
    RankState& s = rank_[ix(r)];
    const size_t begin = s.next;
    s.next = launch_end(ranks_[ix(r)], begin);
    s.open = overlapped_ ? 0 : static_cast<int>(s.next - begin);
    s.done = s.clock;
    const double now = s.clock;
    for (size_t i = begin; i < s.next; ++i) {
      s.posted[i] = now;
      const ActionRef other = pairing_[ix(r)][i];
      if (rank_[ix(other.rank)].posted[ix(other.index)] >= 0) move({r, static_cast<int>(i)}, other);
    }
  }

  // Both ends are issued. Pairs of one channel meet in order, because each end issues in order.
  void move(ActionRef here, ActionRef there) {
    const bool sends = is_send(ranks_[ix(here.rank)][ix(here.index)].kind);
    double& free =
        channel_free_[sends ? std::pair(here.rank, there.rank) : std::pair(there.rank, here.rank)];
    const double start = std::max({rank_[ix(here.rank)].posted[ix(here.index)],
                                   rank_[ix(there.rank)].posted[ix(there.index)], free});
    free = start + p2p_;
    for (const ActionRef end : {here, there}) {
      spans_[ix(end.rank)][ix(end.index)] = {start, start + p2p_};
      finish(end, start + p2p_);
    }
  }

  void finish(ActionRef end, double when) {
    RankState& s = rank_[ix(end.rank)];
    s.moved[ix(end.index)] = 1;
    if (overlapped_) {
      if (s.wait == end.index) work_.push_back(end.rank);
      return;
    }
    s.done = std::max(s.done, when);
    if (--s.open > 0) return;
    s.clock = s.done;
    work_.push_back(end.rank);
  }

  const RankedActions& ranks_;
  const Pairing& pairing_;
  bool overlapped_;
  double forward_, backward_, p2p_;
  std::vector<RankState> rank_;
  std::map<std::pair<int, int>, double> channel_free_;
  std::vector<int> work_;
  Spans spans_;
};

Pairing pair_or_fault(const RankedActions& ranks) {
  Pairing pairing;
  if (const auto fault = check_schedule(ranks, pairing)) throw Fault(fault->text);
  return pairing;
}

// Where the steady phase begins and ends in a list: from the last forward before the first backward
// to the first backward after the last forward. No forward after the first backward: no steady.
// What a phase receives first and what it sends last belongs to it.
struct Phases {
  size_t steady = 0, drain = 0;
};

size_t with_receives_before(const ActionList& list, size_t at) {
  while (at > 0 && is_recv(list[at - 1].kind) &&
         (at < 2 || list[at - 2].batch < 0 || list[at - 2].batch != list[at - 1].batch))
    --at;
  return at;
}

size_t with_sends_after(const ActionList& list, size_t at) {
  while (at < list.size() && is_send(list[at].kind)) at = launch_end(list, at);
  return at;
}

Phases phases_of(const ActionList& list) {
  size_t first_b = list.size(), last_f = 0, before = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].kind == ActionKind::backward) first_b = std::min(first_b, i);
    if (list[i].kind != ActionKind::forward) continue;
    last_f = i;
    if (first_b == list.size()) before = i;
  }
  if (first_b == list.size()) return {list.size(), list.size()};
  if (last_f < first_b) {
    const size_t drain = with_sends_after(list, last_f + 1);
    return {drain, drain};
  }
  size_t drain = last_f;
  while (drain < list.size() && list[drain].kind != ActionKind::backward) ++drain;
  return {with_receives_before(list, before), with_sends_after(list, drain + 1)};
}

// One id per message, by sender and position in the sender's list.
std::vector<std::vector<int>> flow_ids(const RankedActions& ranks, const Pairing& pairing) {
  std::vector<std::vector<int>> ids;
  for (const ActionList& list : ranks) ids.emplace_back(list.size(), -1);
  int next = 0;
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (size_t i = 0; i < ranks[r].size(); ++i) {
      if (!is_send(ranks[r][i].kind)) continue;
      const ActionRef other = pairing[r][i];
      ids[r][i] = ids[ix(other.rank)][ix(other.index)] = next++;
    }
  }
  return ids;
}

TimelineRow row_of(int rank, const ActionList& list, const std::vector<Span>& spans,
                   const std::vector<int>& flows) {
  const PipelineCounts n = count(list);
  TimelineRow row{
      rank, "rank " + std::to_string(rank), {}, n.messages, n.kernels, n.peak_activations, 0};
  const Phases phases = phases_of(list);
  row.spans.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const Action& a = list[i];
    const SpanPhase phase = i < phases.steady  ? SpanPhase::warm_up
                            : i < phases.drain ? SpanPhase::steady
                                               : SpanPhase::drain;
    row.spans.push_back({static_cast<SpanKind>(a.kind), phase, a.stage, a.chunk, a.microbatch,
                         spans[i].start, spans[i].end, a.peer, a.batch, flows[i]});
    if (is_compute(a.kind)) row.busy += spans[i].end - spans[i].start;
  }
  return row;
}

static_assert(static_cast<int>(SpanKind::recv_gradient) ==
              static_cast<int>(ActionKind::recv_gradient));

Timeline timeline_of(const PipelinePlan& plan, const RankedActions& ranks, const Pairing& pairing,
                     const Costs& costs) {
  for (const double cost : {costs.forward, costs.backward, costs.p2p})
    if (!(cost >= 0 && cost <= kMostCost)) throw Fault("pipeline cost out of range");
  const Spans spans = Simulation(plan, ranks, pairing, costs).run();
  const auto flows = flow_ids(ranks, pairing);
  Timeline t;
  t.schedule = plan.schedule;
  t.unit = costs.unit;
  t.ranks = plan.ranks;
  t.chunks = plan.chunks;
  t.microbatches = plan.microbatches;
  t.forward_only = plan.forward_only;
  t.forward_cost = costs.forward;
  t.backward_cost = costs.backward;
  t.p2p_cost = costs.p2p;
  t.ideal = plan.microbatches * (costs.forward + (plan.forward_only ? 0 : costs.backward));
  for (size_t r = 0; r < ranks.size(); ++r) {
    t.rows.push_back(row_of(static_cast<int>(r), ranks[r], spans[r], flows[r]));
    for (const Span& s : spans[r]) t.makespan = std::max(t.makespan, s.end);
  }
  return t;
}

std::vector<ActionRef> order_of(const PipelinePlan& plan, const RankedActions& ranks,
                                const Pairing& pairing) {
  const double v = plan.chunks;  // one unit per chunk keeps all times whole: no rounding, no chance
  const Spans spans = Simulation(plan, ranks, pairing, Costs{v, 2 * v, 0, ""}).run();
  using Head = std::pair<double, int>;  // start, rank: only the next action of each rank competes
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  std::vector<size_t> next(ranks.size());
  const auto offer = [&](int r) {
    if (next[ix(r)] == ranks[ix(r)].size()) return;
    const size_t i = next[ix(r)];
    const ActionRef other = pairing[ix(r)][i];
    const bool sent = !is_recv(ranks[ix(r)][i].kind) || next[ix(other.rank)] > ix(other.index);
    if (sent) heads.push({spans[ix(r)][i].start, r});
  };
  for (int r = 0; r < static_cast<int>(ranks.size()); ++r) offer(r);
  std::vector<ActionRef> order;
  size_t total = 0;
  for (const ActionList& list : ranks) total += list.size();
  order.reserve(total);
  while (!heads.empty()) {
    const int r = heads.top().second;
    heads.pop();
    const size_t i = next[ix(r)]++;
    order.push_back({r, static_cast<int>(i)});
    offer(r);
    const ActionRef other = pairing[ix(r)][i];
    if (is_send(ranks[ix(r)][i].kind) && next[ix(other.rank)] == ix(other.index)) offer(other.rank);
  }
  if (order.size() != total)
    throw Fault("no global order: a batch lists a receive before a send that it waits for");
  return order;
}

}  // namespace

Timeline simulate(const PipelinePlan& plan, const RankedActions& ranks, const Costs& costs) {
  return timeline_of(plan, ranks, pair_or_fault(ranks), costs);
}

Timeline simulate(const PipelinePlan& plan, const Costs& costs) {
  return simulate(plan, build_schedule(plan), costs);
}

std::vector<ActionRef> global_order(const PipelinePlan& plan, const RankedActions& ranks) {
  return order_of(plan, ranks, pair_or_fault(ranks));
}

Played play(const PipelinePlan& plan, const RankedActions& ranks, const Costs& costs) {
  const Pairing pairing = pair_or_fault(ranks);
  return {order_of(plan, ranks, pairing), timeline_of(plan, ranks, pairing, costs)};
}

}  // namespace s2t
