#include "analyzer/compare/witness.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "analyzer/base/text.h"
#include "analyzer/compare/compare.h"

namespace s2t {
namespace {

// How a witness sees a run.
struct View {
  std::string_view witness;
  bool calls;     // it sees calls
  bool messages;  // an all-to-all is a send and a receive per peer
  bool planned;   // NCCL's plan: gathers in bytes, nothing for empty collectives, and within one
                  // launch its own order
  bool launches;  // it sees kernels being launched, or running
  bool named;     // and their names
};
constexpr std::array<View, 4> kViews{{
    {"pmpi", true, false, false, false, false},
    {"pnccl", true, true, false, false, false},
    {"ncclprof", true, true, true, true, false},
    {"cupti", false, true, true, true, true},
}};

const View& view_of(const std::string& witness) {
  for (const View& v : kViews)
    if (v.witness == witness) return v;
  throw Fault("nobody knows how the witness " + witness + " sees a run");
}

bool is_message(Collective op) {
  return op == Collective::send || op == Collective::recv;
}

// One call as a witness may have written it. Empty or absent: not to be compared.
struct Sighting {
  std::string op, group;
  int64_t position = -1, size = -1;  // of the rank in the group, of the group
  Count bytes = 0;
  std::string dtype;
  std::optional<int64_t> peer;  // position in the group
  std::vector<Count> sends, recvs;

  auto operator<=>(const Sighting&) const = default;
};

std::string words(const Sighting& s) {
  const std::string peer = s.peer ? fmt::format(", peer {}", *s.peer) : "";
  const std::string dtype = s.dtype.empty() ? "" : " of " + s.dtype;
  std::string splits;
  for (const Count b : s.sends) splits += (splits.empty() ? ", sends " : " ") + commas(b);
  return fmt::format("{} on {} (position {} of {}), {} B{}{}{}", s.op,
                     s.group.empty() ? "a communicator without a name" : s.group, s.position,
                     s.size, commas(s.bytes), dtype, peer, splits);
}

// What is launched together, and in whose words: "event 3", "call 3 of its own record".
struct Launch {
  std::string name;
  std::optional<int64_t> event;
  std::string kernel;
  std::vector<Sighting> sightings;
};

// Puts a rank's calls as a witness would see them.
class Lens {
 public:
  Lens(const View& view, const Program& program) : view_(view) {
    for (const Family& f : program.families) groups_[f.name] = program.mesh.groups(f);
  }

  // `names` in parallel: how to speak of a call, and the event that it is.
  std::vector<Launch> look(
      const std::vector<Observation>& calls,
      const std::vector<std::pair<std::string, std::optional<int64_t>>>& names) const {
    std::vector<Launch> launches;
    for (size_t i = 0; i < calls.size(); ++i) {
      const std::vector<Sighting> seen = sightings_of(calls[i]);
      const int64_t batch = calls[i].batch.value_or(-1);
      const bool together = view_.planned && i > 0 && batch >= 0 && calls[i - 1].batch == batch;
      if (!together || launches.empty())
        launches.push_back({names[i].first, names[i].second, kernel_of(calls[i].op), {}});
      auto& all = launches.back().sightings;
      all.insert(all.end(), seen.begin(), seen.end());
    }
    std::erase_if(launches, [](const Launch& l) { return l.sightings.empty(); });
    return launches;
  }

  // As seen by the witness itself; what this view does not have is left out.
  static Sighting sighting_of(const WitnessedCall& c) {
    const bool message = c.op == "send" || c.op == "recv";
    return {c.op,
            c.comm,
            c.comm_rank,
            c.comm_size,
            c.bytes,
            c.dtype,
            message ? c.peer : std::nullopt,
            c.send_bytes,
            c.recv_bytes};
  }

 private:
  static std::string kernel_of(Collective op) {
    const bool messages = is_message(op) || op == Collective::all_to_all;
    return messages ? "send_recv" : std::string(info(op).name);
  }

  std::vector<Sighting> sightings_of(const Observation& o) const {
    const Count bytes_of_one = o.dtype ? info(*o.dtype).bytes : 0;
    Sighting s = where(o);
    s.op = info(o.op).name;
    s.bytes = o.elements.value_or(0) * bytes_of_one;
    s.dtype = on_the_wire(o);
    if (o.op == Collective::all_to_all && o.sends && o.recvs) return all_to_all(o, s, bytes_of_one);
    if (is_message(o.op) && o.peer) s.peer = position(o, *o.peer);
    if (view_.planned && !is_message(o.op) && s.bytes == 0) return {};
    return {s};
  }

  std::vector<Sighting> all_to_all(const Observation& o, Sighting s, Count bytes_of_one) const {
    const auto in_bytes = [&](std::vector<Count> list) {
      for (Count& n : list) n *= bytes_of_one;
      return list;
    };
    const std::vector<Count> sends = in_bytes(*o.sends), recvs = in_bytes(*o.recvs);
    if (!view_.messages) {
      s.sends = sends;
      s.recvs = recvs;
      return {s};
    }
    std::vector<Sighting> messages;
    for (size_t r = 0; r < sends.size() && r < recvs.size(); ++r)
      for (const bool send : {true, false}) {
        s.op = send ? "send" : "recv";
        s.bytes = send ? sends[r] : recvs[r];
        s.peer = static_cast<int64_t>(r);
        if (s.bytes != 0) messages.push_back(s);
      }
    return messages;
  }

  // Booleans and 8-bit floats travel as bytes.
  std::string on_the_wire(const Observation& o) const {
    if (view_.planned && (o.op == Collective::all_gather || o.op == Collective::broadcast))
      return "int8";
    if (!o.dtype) return "";
    const bool bytes = *o.dtype == DType::f8 || *o.dtype == DType::boolean;
    return bytes ? "uint8" : std::string(info(*o.dtype).name);
  }

  Sighting where(const Observation& o) const {
    Sighting s;
    s.group = o.family.value_or("?") + "?";
    s.position = position(o, o.rank);
    s.size = static_cast<int64_t>(o.ranks.size());
    const auto family = groups_.find(o.family.value_or(""));
    if (family == groups_.end()) return s;
    for (size_t i = 0; i < family->second.size(); ++i)
      if (family->second[i] == o.ranks) s.group = family->first + std::to_string(i);
    return s;
  }

  static int64_t position(const Observation& o, Rank rank) {
    const auto at = std::find(o.ranks.begin(), o.ranks.end(), rank);
    return at == o.ranks.end() ? -1 : at - o.ranks.begin();
  }

  const View& view_;
  std::map<std::string, std::vector<std::vector<Rank>>> groups_;
};

// What the witness does not know is no disagreement.
bool same(const Sighting& expected, Sighting seen) {
  if (seen.group.empty()) seen.group = expected.group;
  if (seen.dtype.empty()) seen.dtype = expected.dtype;
  if (seen.sends.empty() && seen.recvs.empty()) {
    seen.sends = expected.sends;
    seen.recvs = expected.recvs;
  }
  return expected == seen;
}

// One rank: what was expected beside what the witness wrote.
class Examination {
 public:
  Examination(const View& view, Rank rank, const WitnessRecord& record)
      : view_(view), rank_(rank), record_(record) {
    for (const WitnessedCall& c : record.calls) seen_.push_back(Lens::sighting_of(c));
  }

  std::optional<Disagreement> against(const std::vector<Launch>& expected) const {
    if (view_.calls)
      if (auto found = calls(expected)) return found;
    return view_.launches ? launches(expected) : std::nullopt;
  }

 private:
  std::optional<Disagreement> calls(const std::vector<Launch>& expected) const {
    size_t at = 0;
    for (const Launch& launch : expected) {
      std::vector<Sighting> wanted = launch.sightings;
      const size_t n = std::min(wanted.size(), seen_.size() - at);
      std::vector<Sighting> got(seen_.begin() + at, seen_.begin() + at + n);
      if (view_.planned) {
        std::sort(wanted.begin(), wanted.end());
        std::sort(got.begin(), got.end());
      }
      for (size_t i = 0; i < wanted.size(); ++i) {
        if (i == n) return tell(launch, wanted[i], at + i, "nothing more");
        if (!same(wanted[i], got[i])) return tell(launch, wanted[i], at + i, words(got[i]));
      }
      at += n;
    }
    if (at == seen_.size()) return std::nullopt;
    return Disagreement{rank_, std::nullopt,
                        fmt::format("rank {}: {} saw a call {}, {}, which is in no other account",
                                    rank_.value, view_.witness, at, words(seen_[at]))};
  }

  Disagreement tell(const Launch& launch, const Sighting& wanted, size_t call,
                    const std::string& got) const {
    return {rank_, launch.event,
            fmt::format("rank {}: {} is {}; {} saw as call {} {}", rank_.value, launch.name,
                        words(wanted), view_.witness, call, got)};
  }

  std::optional<Disagreement> launches(const std::vector<Launch>& expected) const {
    const bool none_to_see = view_.calls && record_.launches.empty();  // an old plugin table
    if (!none_to_see && record_.launches.size() != expected.size())
      return Disagreement{rank_, std::nullopt,
                          fmt::format("rank {}: {} kernels are expected, {} saw {}", rank_.value,
                                      expected.size(), view_.witness, record_.launches.size())};
    return view_.named ? kernel_names(expected) : std::nullopt;
  }

  // Time stamps may be missing, so only how often; a generic kernel may be any.
  std::optional<Disagreement> kernel_names(const std::vector<Launch>& expected) const {
    std::map<std::string, int64_t> surplus;
    for (const std::string& name : record_.launches) ++surplus[name];
    for (const Launch& l : expected) --surplus[l.kernel];
    for (const auto& [name, more] : surplus)
      if (name != "other" && more > 0)
        return Disagreement{rank_, std::nullopt,
                            fmt::format("rank {}: {} saw {} more kernels of {} than expected",
                                        rank_.value, view_.witness, more, name)};
    return std::nullopt;
  }

  const View& view_;
  const Rank rank_;
  const WitnessRecord& record_;
  std::vector<Sighting> seen_;
};

using Names = std::vector<std::pair<std::string, std::optional<int64_t>>>;

std::vector<Launch> predicted(const Lens& lens, const Program& program,
                              const std::vector<Event>& events, Rank rank) {
  std::vector<Observation> calls;
  Names names;
  for (const Event& e : events) {
    calls.push_back(observation_of(program, e, rank));
    names.emplace_back(
        fmt::format("event {} ({} of {}, {})", e.id, info(e.op).name, e.tensor, to_string(e.phase)),
        e.id);
  }
  return lens.look(calls, names);
}

std::vector<Launch> own(const Lens& lens, const std::vector<Observation>& calls) {
  Names names;
  for (size_t i = 0; i < calls.size(); ++i)
    names.emplace_back(fmt::format("call {} of the runtime's own record", i), std::nullopt);
  return lens.look(calls, names);
}

}  // namespace

Observation observation_of(const Program& program, const Event& e, Rank rank) {
  Observation o;
  o.rank = rank;
  o.op = e.op;
  o.phase = std::string(to_string(e.phase));
  o.family = program.families[e.family].name;
  o.ranks = program.mesh.group_of(program.families[e.family], rank);
  o.tensor = e.tensor;
  o.members = e.members;
  o.microbatch = e.microbatch.value_or(-1);
  o.peer = e.peer;
  o.batch = e.batch;
  o.dtype = e.dtype;
  o.elements = e.volume.elements;
  o.input_bytes = e.volume.input_bytes;
  o.output_bytes = e.volume.output_bytes;
  if (!e.splits) return o;
  const auto in_elements = [&](std::vector<Count> rows) {
    for (Count& r : rows) r *= e.splits->row_elements;
    return rows;
  };
  o.sends = in_elements(e.splits->send);
  o.recvs = in_elements(e.splits->recv);
  return o;
}

std::vector<Disagreement> compare_with_witness(
    const Program& program, const std::vector<std::vector<Observation>>& recorded,
    const std::string& witness, const WitnessRecords& seen) {
  const View& view = view_of(witness);
  const Lens lens(view, program);
  const auto events = events_by_rank(program);
  std::vector<Disagreement> found;
  for (size_t r = 0; r < events.size(); ++r) {
    const Rank rank(r);
    const auto record = seen.find(rank);
    if (record == seen.end()) {
      found.push_back(
          {rank, std::nullopt, fmt::format("rank {}: {} wrote nothing about it", r, witness)});
      continue;
    }
    for (const std::string& complaint : record->second.complaints)
      found.push_back({rank, std::nullopt, fmt::format("rank {}: {}", r, complaint)});
    const Examination examination(view, rank, record->second);
    if (auto d = examination.against(predicted(lens, program, events[r], rank)))
      found.push_back(*d);
    if (auto d = examination.against(own(lens, recorded.at(r)))) found.push_back(*d);
  }
  return found;
}

}  // namespace s2t
