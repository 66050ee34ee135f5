#include "analyzer/compare/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "analyzer/base/text.h"
#include "analyzer/program/listing.h"

namespace s2t {
namespace {

constexpr std::array<std::string_view, 4> kKinds{"missing", "extra", "swapped", "differs"};

std::vector<int32_t> numbers(const std::vector<Rank>& ranks) {
  std::vector<int32_t> list;
  for (const Rank r : ranks) list.push_back(r.value);
  return list;
}

// One rank's events beside its calls.
class RankComparison {
 public:
  RankComparison(const Program& program, Rank rank, const std::vector<Event>& events,
                 const std::vector<Observation>& calls)
      : program_(program), rank_(rank), events_(events), calls_(calls) {}

  std::vector<Difference> differences(size_t most) {
    while ((e_ < events_.size() || c_ < calls_.size()) && out_.size() < most) advance();
    return std::move(out_);
  }

 private:
  using Fields = std::vector<std::string>;

  void advance() {
    if (c_ == calls_.size()) return missing();
    if (e_ == events_.size()) return extra();
    const Fields fields = differing(e_, c_);
    if (fields.empty()) {
      ++e_;
      ++c_;
    } else if (meets(e_ + 1, c_) && meets(e_, c_ + 1)) {
      swapped();
    } else if (meets(e_ + 1, c_) && !meets(e_ + 1, c_ + 1)) {
      missing();
    } else if (meets(e_, c_ + 1) && !meets(e_ + 1, c_ + 1)) {
      extra();
    } else {
      differs(fields);
    }
  }

  bool meets(size_t e, size_t c) const {
    return e < events_.size() && c < calls_.size() && differing(e, c).empty();
  }

  void add(Difference::Kind kind, Fields fields, std::string text) {
    std::optional<int64_t> event;
    if (kind != Difference::Kind::extra) event = events_[e_].id;
    out_.push_back({kind, rank_, c_, event, std::move(fields),
                    fmt::format("rank {}, call {}: {}", rank_.value, c_, std::move(text))});
  }

  void missing() {
    add(Difference::Kind::missing, {},
        fmt::format("event {} ({}) is predicted and did not run", events_[e_].id,
                    words(events_[e_])));
    ++e_;
  }
  void extra() {
    add(Difference::Kind::extra, {}, fmt::format("{} ran and is not predicted", words(calls_[c_])));
    ++c_;
  }
  void swapped() {
    add(Difference::Kind::swapped, {},
        fmt::format("event {} ({}) is predicted before event {} ({}), and they ran the other way "
                    "round",
                    events_[e_].id, words(events_[e_]), events_[e_ + 1].id,
                    words(events_[e_ + 1])));
    e_ += 2;
    c_ += 2;
  }
  void differs(const Fields& fields) {
    add(Difference::Kind::differs, fields,
        fmt::format("event {} is predicted as {}, what ran is {}: {}", events_[e_].id,
                    words(events_[e_]), words(calls_[c_]), fmt::join(fields, ", ")));
    ++e_;
    ++c_;
  }

  std::vector<Rank> group_of(const Event& e) const {
    return program_.mesh.group_of(program_.families[e.family], rank_);
  }

  template <class T, class U>
  static void compare_field(const char* name, const std::optional<T>& seen, const U& predicted,
                            Fields& fields) {
    if (seen && !(*seen == predicted)) fields.push_back(name);
  }

  Fields differing(size_t at, size_t call) const {
    const Event& e = events_[at];
    const Observation& o = calls_[call];
    Fields fields;
    if (o.op != e.op) fields.push_back("op");
    compare_field("phase", o.phase, std::string(to_string(e.phase)), fields);
    const bool other_family = o.family && *o.family != program_.families[e.family].name;
    if (other_family || (!o.ranks.empty() && o.ranks != group_of(e))) fields.push_back("group");
    compare_field("tensor", o.tensor, e.tensor, fields);
    compare_field("members", o.members, e.members, fields);
    compare_field("microbatch", o.microbatch, e.microbatch.value_or(-1), fields);
    compare_field("dtype", o.dtype, e.dtype, fields);
    compare_field("elements", o.elements, e.volume.elements, fields);
    compare_field("input_bytes", o.input_bytes, e.volume.input_bytes, fields);
    compare_field("output_bytes", o.output_bytes, e.volume.output_bytes, fields);
    if (e.peer) compare_field("peer", o.peer, *e.peer, fields);
    compare_splits(e, o, fields);
    if (launch_differs(at, call)) fields.push_back("batch");
    return fields;
  }

  static void compare_splits(const Event& e, const Observation& o, Fields& fields) {
    if (!e.splits) return;
    const auto in_elements = [&](std::vector<Count> rows) {
      for (Count& r : rows) r *= e.splits->row_elements;
      return rows;
    };
    Fields either;
    compare_field("splits", o.sends, in_elements(e.splits->send), either);
    compare_field("splits", o.recvs, in_elements(e.splits->recv), either);
    if (!either.empty()) fields.push_back("splits");
  }

  // Only whether an operation is launched together with the one before it can be seen.
  bool launch_differs(size_t at, size_t call) const {
    if (!calls_[call].batch || at == 0 || call == 0) return false;
    const int64_t seen = *calls_[call].batch;
    const bool together = seen >= 0 && calls_[call - 1].batch == seen;
    const int64_t predicted = events_[at].batch;
    return together != (predicted >= 0 && events_[at - 1].batch == predicted);
  }

  static std::string bytes_of(Count input, Count output) {
    return fmt::format("{} -> {} B", commas(input), commas(output));
  }
  std::string words(const Event& e) const {
    return fmt::format("{} of {} on {} {}, {}, {}", info(e.op).name, e.tensor,
                       program_.families[e.family].name, numbers(group_of(e)), to_string(e.phase),
                       bytes_of(e.volume.input_bytes, e.volume.output_bytes));
  }
  static std::string words(const Observation& o) {
    return fmt::format("{} of {} on {} {}, {}, {}", info(o.op).name, o.tensor.value_or("?"),
                       o.family.value_or("?"), numbers(o.ranks), o.phase.value_or("?"),
                       bytes_of(o.input_bytes.value_or(0), o.output_bytes.value_or(0)));
  }

  const Program& program_;
  const Rank rank_;
  const std::vector<Event>& events_;
  const std::vector<Observation>& calls_;
  size_t e_ = 0, c_ = 0;
  std::vector<Difference> out_;
};

}  // namespace

std::string_view to_string(Difference::Kind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

std::vector<std::vector<Event>> events_by_rank(const Program& program) {
  std::vector<std::vector<Event>> by_rank(static_cast<size_t>(program.mesh.world()));
  for (const Event& e : list_events(program))
    for (const Rank rank : ranks_of(program, e)) by_rank[rank.at()].push_back(e);
  return by_rank;
}

std::vector<Difference> compare(const Program& program,
                                const std::vector<std::vector<Observation>>& by_rank, size_t most) {
  const auto events = events_by_rank(program);
  std::vector<std::vector<Difference>> found;
  for (size_t r = 0; r < events.size(); ++r) {
    static const std::vector<Observation> kNothing;
    const auto& calls = r < by_rank.size() ? by_rank[r] : kNothing;
    found.push_back(RankComparison(program, Rank(r), events[r], calls).differences(most));
  }
  std::vector<Difference> all;
  for (size_t i = 0; all.size() < most; ++i) {
    bool any = false;
    for (const auto& list : found)
      if (i < list.size() && all.size() < most) {
        all.push_back(list[i]);
        any = true;
      }
    if (!any) break;
  }
  return all;
}

}  // namespace s2t
