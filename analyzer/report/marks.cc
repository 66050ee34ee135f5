#include "analyzer/report/marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "analyzer/base/text.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

[[noreturn]] void refuse(std::string flag, std::string found, std::string expected,
                         std::string advice, std::string slug) {
  throw UserError("shape2trace", {{std::move(flag), std::move(found), std::move(expected),
                                   std::move(advice), std::move(slug)}});
}

std::optional<Phase> phase_of(const std::string& word) {
  if (word.empty()) return std::nullopt;
  std::vector<std::string> names;
  for (const Phase p :
       {Phase::forward, Phase::backward, Phase::recompute, Phase::grad_sync, Phase::step}) {
    if (to_string(p) == word) return p;
    names.emplace_back(to_string(p));
  }
  refuse("--phase", "no phase is named " + quoted(word), "one of " + quoted_list(names),
         did_you_mean(word, names), "bad-option");
}

void check_axis(const Program& program, const std::string& axis) {
  const std::vector<std::string> names = program.mesh.axis_names();
  if (axis.empty() || std::find(names.begin(), names.end(), axis) != names.end()) return;
  refuse("--axis", "the mesh has no axis " + quoted(axis), "one of " + quoted_list(names),
         did_you_mean(axis, names), "unknown-axis");
}

// "3" or "2-5".
std::optional<std::pair<int64_t, int64_t>> layer_range(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto number = [&](const std::string& digits) -> int64_t {
    const bool good = !digits.empty() && digits.size() <= 9 &&
                      std::all_of(digits.begin(), digits.end(),
                                  [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!good)
      refuse("--layers", quoted(text) + " is no range of layers", "\"3\" or \"2-5\"", "",
             "bad-option");
    return std::stoll(digits);
  };
  const size_t dash = text.find('-');
  const int64_t first = number(text.substr(0, dash));
  return std::pair{first, dash == std::string::npos ? first : number(text.substr(dash + 1))};
}

class Marker {
 public:
  Marker(const Program& program, const ReportOptions& options)
      : program_(program),
        rank_(options.rank),
        axis_(options.axis),
        phase_(phase_of(options.phase)) {
    check_rank(program, rank_);
    check_axis(program, axis_);
    marks_.at.resize(program.picture.ops.size());
    marks_.buckets.resize(program.stages.size());
  }

  Marks run() {
    find_buckets();
    for (size_t s = 0; s < program_.stages.size(); ++s) {
      const Stage& stage = program_.stages[s];
      for (const Segment* segment : {&stage.forward, &stage.backward})
        for (const Segment::Item& item : segment->items) add(item.event, nullptr);
      if (s + 1 < program_.stages.size())
        messages(stage.send_activation, program_.stages[s + 1].recv_activation);
      if (s > 0) messages(stage.send_gradient, program_.stages[s - 1].recv_gradient);
    }
    for (const Event& e : program_.after) add(e, nullptr);
    for (const Pruned& p : program_.pruned) add(p.event, &p);
    return std::move(marks_);
  }

 private:
  CauseKind kind(const Event& e) const { return program_.causes.at(e.cause).kind; }

  // A bucket may hold one parameter only: what counts is that others of its kind hold several.
  void find_buckets() {
    for_each_kept_event(program_, [this](const Event& e) {
      if (e.members.size() > 1) bucketed_.insert(kind(e));
    });
  }

  // The two ends of a border list their messages in the same order.
  void messages(const std::vector<Event>& sends, const std::vector<Event>& receives) {
    for (size_t i = 0; i < sends.size(); ++i)
      if (!rank_ || contains(receives.at(i).ranks, program_.mesh, *rank_) || issues(sends[i]))
        add_wanted(sends[i], nullptr);
  }

  bool issues(const Event& e) const { return !rank_ || contains(e.ranks, program_.mesh, *rank_); }

  bool wanted(const Event& e) const {
    const std::vector<std::string>& axes = program_.families[e.family].axes;
    return (!phase_ || e.phase == *phase_) &&
           (axis_.empty() || std::find(axes.begin(), axes.end(), axis_) != axes.end());
  }

  void add(const Event& e, const Pruned* pruned) {
    if (issues(e)) add_wanted(e, pruned);
  }

  void add_wanted(const Event& e, const Pruned* pruned) {
    if (!wanted(e)) return;
    const bool shared = e.phase != Phase::forward && bucketed_.contains(kind(e));
    if (shared || e.value < 0) {
      const size_t stage = static_cast<size_t>(e.stage.value_or(0));
      marks_.buckets[std::min(stage, marks_.buckets.size() - 1)].push_back(&e);
      return;
    }
    const int32_t op = e.user >= 0 ? e.user : program_.picture.values[e.value].producer;
    if (op < 0) return;
    std::vector<Mark>& here = marks_.at[static_cast<size_t>(op)];
    for (Mark& m : here)
      if (e.call >= 0 && m.event->call == e.call && m.pruned == pruned) {
        m.least = std::min(m.least, e.volume.input_bytes);
        m.most = std::max(m.most, e.volume.input_bytes);
        return;
      }
    here.push_back(
        {&e, pruned, e.volume.input_bytes, e.volume.input_bytes, e.op == Collective::send});
  }

  const Program& program_;
  std::optional<Rank> rank_;
  std::string axis_;
  std::optional<Phase> phase_;
  std::set<CauseKind> bucketed_;
  Marks marks_;
};

std::optional<int64_t> number_in(const std::string& text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) continue;
    size_t end = i;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    const bool stands_alone = end == text.size() || text[end] == '.' || text[end] == '_';
    if (stands_alone && end - i <= 9) return std::stoll(text.substr(i, end - i));
    i = end;
  }
  return std::nullopt;
}

}  // namespace

Marks select_marks(const Program& program, const ReportOptions& options) {
  return Marker(program, options).run();
}

std::optional<int64_t> layer_of(const PictureOp& op) {
  const auto layer = number_in(op.module);
  return layer ? layer : number_in(op.name);
}

std::vector<int32_t> select_ops(const Program& program, const ReportOptions& options) {
  const auto range = layer_range(options.layers);
  std::optional<int64_t> coordinate;
  if (const auto atom = program.mesh.pipeline_atom(); options.rank && atom)
    coordinate = program.mesh.coordinate(*options.rank, *atom);
  std::vector<int32_t> shown;
  for (size_t o = 0; o < program.picture.ops.size(); ++o) {
    const PictureOp& op = program.picture.ops[o];
    const auto lives_here = [&](int32_t stage) {
      return stage >= 0 && stage % program.pipeline_ranks == *coordinate;
    };
    // A border is shown at both of its ends.
    if (coordinate && !lives_here(op.stage) && !(op.kind == "transfer" && lives_here(op.stage - 1)))
      continue;
    if (range) {
      const auto layer = layer_of(op);
      if (!layer || *layer < range->first || *layer > range->second) continue;
    }
    shown.push_back(static_cast<int32_t>(o));
  }
  if (shown.empty() && range)
    refuse("--layers", "no op belongs to layers " + options.layers,
           "a number that stands in the modules or names of ops", "", "out-of-range");
  return shown;
}

}  // namespace s2t
