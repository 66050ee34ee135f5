#include "analyzer/schedule/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace s2t {
namespace {

using Channel = std::pair<int, int>;  // source, destination

struct Ends {
  std::vector<ActionRef> sends, recvs;
};

const Action& at(const RankedActions& ranks, ActionRef r) {
  return ranks[static_cast<size_t>(r.rank)][static_cast<size_t>(r.index)];
}

std::string launch_text(const RankedActions& ranks, ActionRef r) {
  const ActionList& list = ranks[static_cast<size_t>(r.rank)];
  size_t begin = static_cast<size_t>(r.index);
  while (begin > 0 && list[begin].batch >= 0 && list[begin - 1].batch == list[begin].batch) --begin;
  const auto first = list.begin() + static_cast<long>(begin);
  return to_string(ActionList(first, list.begin() + static_cast<long>(launch_end(list, begin))),
                   Labels::numbered);
}

// The same message seen from both ends: an activation goes one stage up, a gradient one down.
bool same_message(const Action& send, const Action& recv) {
  const bool up = send.kind == ActionKind::send_activation;
  const ActionKind wanted = up ? ActionKind::recv_activation : ActionKind::recv_gradient;
  return recv.kind == wanted && recv.microbatch == send.microbatch &&
         recv.stage == send.stage + (up ? 1 : -1);
}

ScheduleFault unpaired(const RankedActions& ranks, ActionRef r) {
  const Action& a = at(ranks, r);
  return {ScheduleFault::Kind::unpaired,
          {{r, a}},
          fmt::format("rank {} issues {} {} rank {}, which never issues the matching {}", r.rank,
                      to_string(a), is_send(a.kind) ? "to" : "from", a.peer,
                      is_send(a.kind) ? "receive" : "send")};
}

std::optional<ScheduleFault> collect(const RankedActions& ranks,
                                     std::map<Channel, Ends>& channels) {
  for (int r = 0; r < static_cast<int>(ranks.size()); ++r) {
    const ActionList& list = ranks[static_cast<size_t>(r)];
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      const Action& a = list[static_cast<size_t>(i)];
      if (is_compute(a.kind)) continue;
      if (a.peer < 0 || a.peer >= static_cast<int>(ranks.size()) || a.peer == r)
        return ScheduleFault{ScheduleFault::Kind::malformed,
                             {{{r, i}, a}},
                             fmt::format("rank {} issues {} with peer {}; expected another of the "
                                         "{} ranks",
                                         r, to_string(a), a.peer, ranks.size())};
      if (is_send(a.kind))
        channels[{r, a.peer}].sends.push_back({r, i});
      else
        channels[{a.peer, r}].recvs.push_back({r, i});
    }
  }
  return std::nullopt;
}

std::optional<ScheduleFault> match(const RankedActions& ranks, const Ends& ends, Pairing& pairing) {
  const size_t both = std::min(ends.sends.size(), ends.recvs.size());
  for (size_t k = 0; k < both; ++k) {
    const ActionRef s = ends.sends[k], r = ends.recvs[k];
    if (!same_message(at(ranks, s), at(ranks, r)))
      return ScheduleFault{
          ScheduleFault::Kind::mispaired,
          {{s, at(ranks, s)}, {r, at(ranks, r)}},
          fmt::format("message {} from rank {} to rank {} is sent as {} (stage {}) but received as "
                      "{} (stage {})",
                      k, s.rank, r.rank, to_string(at(ranks, s)), at(ranks, s).stage,
                      to_string(at(ranks, r)), at(ranks, r).stage)};
    pairing[static_cast<size_t>(s.rank)][static_cast<size_t>(s.index)] = r;
    pairing[static_cast<size_t>(r.rank)][static_cast<size_t>(r.index)] = s;
  }
  if (ends.sends.size() > both) return unpaired(ranks, ends.sends[both]);
  if (ends.recvs.size() > both) return unpaired(ranks, ends.recvs[both]);
  return std::nullopt;
}

// Walks all lists at once; `position` of a rank only moves past a launch whose partners are all
// issued. What is left when nothing moves any more is stuck.
class Walk {
 public:
  Walk(const RankedActions& ranks, const Pairing& pairing)
      : ranks_(ranks),
        pairing_(pairing),
        begin_(ranks.size()),
        issued_(ranks.size()),
        open_(ranks.size()) {}

  std::vector<int> stuck() {
    for (int r = 0; r < size(); ++r) work_.push_back(r);
    while (!work_.empty()) {
      const int r = work_.back();
      work_.pop_back();
      advance(r);
    }
    std::vector<int> left;
    for (int r = 0; r < size(); ++r)
      if (begin_[ix(r)] < ranks_[ix(r)].size()) left.push_back(r);
    return left;
  }

  // The first action of the current launch whose partner is not issued.
  ActionRef blocked_at(int r) const {
    size_t i = begin_[ix(r)];
    while (is_issued(pairing_[ix(r)][i])) ++i;
    return {r, static_cast<int>(i)};
  }

 private:
  static size_t ix(int r) { return static_cast<size_t>(r); }
  int size() const { return static_cast<int>(ranks_.size()); }
  bool is_issued(ActionRef x) const { return ix(x.index) < issued_[ix(x.rank)]; }

  void advance(int r) {
    const ActionList& list = ranks_[ix(r)];
    while (open_[ix(r)] == 0 && begin_[ix(r)] < list.size()) {
      const size_t begin = begin_[ix(r)], end = launch_end(list, begin);
      if (is_compute(list[begin].kind)) {
        begin_[ix(r)] = issued_[ix(r)] = end;
        continue;
      }
      issue(r, begin, end);
      if (open_[ix(r)] == 0) begin_[ix(r)] = end;
    }
  }

  void issue(int r, size_t begin, size_t end) {
    issued_[ix(r)] = end;
    for (size_t i = begin; i < end; ++i) {
      const ActionRef other = pairing_[ix(r)][i];
      if (!is_issued(other))
        ++open_[ix(r)];
      else if (--open_[ix(other.rank)] == 0)
        resume(other.rank);
    }
  }

  void resume(int r) {
    begin_[ix(r)] = issued_[ix(r)];
    work_.push_back(r);
  }

  const RankedActions& ranks_;
  const Pairing& pairing_;
  std::vector<size_t> begin_, issued_;  // start of the current launch; end of what is issued
  std::vector<int> open_;               // operations of the current launch not yet met
  std::vector<int> work_;
};

// Every stuck rank waits for a stuck rank, so following the waits must close a circle.
ScheduleFault name_circle(const RankedActions& ranks, const Walk& walk, int start) {
  std::vector<Wait> path;
  std::map<int, size_t> seen;
  int r = start;
  while (!seen.contains(r)) {
    seen[r] = path.size();
    const ActionRef stop = walk.blocked_at(r);
    path.push_back({stop, at(ranks, stop)});
    r = at(ranks, stop).peer;
  }
  path.erase(path.begin(), path.begin() + static_cast<long>(seen[r]));
  const auto smallest = std::min_element(
      path.begin(), path.end(), [](const Wait& a, const Wait& b) { return a.at.rank < b.at.rank; });
  std::rotate(path.begin(), smallest, path.end());
  std::string text = "deadlock: ";
  for (size_t i = 0; i < path.size(); ++i)
    text += fmt::format("{}rank {} waits in {} for rank {}", i ? "; " : "", path[i].at.rank,
                        launch_text(ranks, path[i].at), path[i].action.peer);
  return {ScheduleFault::Kind::deadlock, path, text};
}

}  // namespace

size_t launch_end(const ActionList& actions, size_t begin) {
  size_t end = begin + 1;
  if (is_compute(actions[begin].kind) || actions[begin].batch < 0) return end;
  while (end < actions.size() && actions[end].batch == actions[begin].batch) ++end;
  return end;
}

std::optional<ScheduleFault> pair_up(const RankedActions& ranks, Pairing& pairing) {
  pairing.clear();
  for (const ActionList& list : ranks) pairing.emplace_back(list.size());
  std::map<Channel, Ends> channels;
  if (auto fault = collect(ranks, channels)) return fault;
  for (const auto& [channel, ends] : channels)
    if (auto fault = match(ranks, ends, pairing)) return fault;
  return std::nullopt;
}

std::optional<ScheduleFault> check_schedule(const RankedActions& ranks, Pairing& pairing) {
  if (auto fault = pair_up(ranks, pairing)) return fault;
  Walk walk(ranks, pairing);
  const std::vector<int> stuck = walk.stuck();
  if (stuck.empty()) return std::nullopt;
  return name_circle(ranks, walk, stuck.front());
}

std::optional<ScheduleFault> check_schedule(const RankedActions& ranks) {
  Pairing pairing;
  return check_schedule(ranks, pairing);
}

}  // namespace s2t
