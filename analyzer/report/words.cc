#include "analyzer/report/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/base/text.h"
#include "analyzer/program/listing.h"
#include "analyzer/program/owner.h"
#include "analyzer/report/short_names.h"

namespace s2t {

std::vector<Axis> dense_axes(const Mesh& mesh) {
  std::vector<Axis> axes;
  for (const Axis& axis : mesh.axes())
    if (!axis.part && !axis.expert) axes.push_back(axis);
  return axes;
}

std::vector<Axis> expert_axes(const Mesh& mesh) {
  std::vector<Axis> axes;
  AtomSet covered = 0;
  for (const Axis& axis : mesh.axes())
    if (!axis.part && axis.expert) {
      axes.push_back(axis);
      covered |= axis.atoms;
    }
  if (axes.empty()) return axes;
  for (const Axis& axis : dense_axes(mesh))  // what both share is listed with the dense axes
    if (axis.atoms != 0 && (axis.atoms & covered) == 0) axes.push_back(axis);
  // Bit 0 is the slowest atom.
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
    return a.atoms != 0 && b.atoms != 0 && (a.atoms & -a.atoms) < (b.atoms & -b.atoms);
  });
  return axes;
}

std::vector<Rank> first_group(const Mesh& mesh, const Family& family) {
  for (int64_t r = 0; r < mesh.world(); ++r)
    if (auto group = mesh.group_of(family, Rank(static_cast<int32_t>(r))); !group.empty())
      return group;
  return {};
}

namespace {

// "0-3": the run of neighbours that begins at `i`, which moves behind it.
std::string run_from(const std::vector<int64_t>& list, size_t& i) {
  size_t last = i;
  while (last + 1 < list.size() && list[last + 1] == list[last] + 1) ++last;
  std::string text = std::to_string(list[i]);
  if (last > i) text += "-" + std::to_string(list[last]);
  i = last + 1;
  return text;
}

}  // namespace

std::string ranges(const std::vector<int64_t>& list, int64_t n) {
  if (n > 1 && static_cast<int64_t>(list.size()) == n) return "all";
  std::string text;
  for (size_t i = 0; i < list.size();) text += (text.empty() ? "" : ", ") + run_from(list, i);
  return text;
}

std::string some_of(const std::vector<int64_t>& list, size_t width) {
  std::string text, cut;
  const std::string end = list.empty() ? "" : "... " + std::to_string(list.back());
  for (size_t i = 0; i < list.size();) {
    text += (text.empty() ? "" : ", ") + run_from(list, i);
    if (i == list.size() && text.size() <= width) return text;
    if (cut.empty() || text.size() + 2 + end.size() <= width)
      cut = text + ", ";
    else if (text.size() > width)
      break;
  }
  return cut.substr(0, cut.size() - 1) + " " + end;
}

std::string rank_list(const std::vector<Rank>& ranks, size_t limit) {
  std::string text = "[";
  const bool cut = ranks.size() > limit;
  for (size_t i = 0; i < (cut ? 3 : ranks.size()); ++i)
    text += (i ? "," : "") + std::to_string(ranks[i].value);
  if (cut) text += fmt::format(", ... {}", ranks.back().value);
  return text + "]";
}

std::string words(const RankSet& set, const Mesh& mesh) {
  if (set.along.empty()) return "all";
  if (mesh.world() <= kExplicitRanks) {
    std::vector<int64_t> ranks;
    for (int64_t r = 0; r < mesh.world(); ++r)
      if (contains(set, mesh, Rank(static_cast<int32_t>(r)))) ranks.push_back(r);
    return ranges(ranks, mesh.world());
  }
  std::string text;
  for (const RankSet::Along& a : set.along)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", a.axis, ranges(a.coordinates));
  return text;
}

std::string words(const Shape& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (const int64_t dim : shape) text += (text.empty() ? "" : " x ") + std::to_string(dim);
  return text;
}

Timeline named_timeline(const Program& program) {
  if (!program.timeline) throw Fault("a program without a timeline has no schedule to print");
  Timeline timeline = *program.timeline;
  if (program.pipeline_axis.empty() || program.mesh.world() == timeline.ranks) return timeline;
  const std::string axis = ShortNames(program.mesh)(program.pipeline_axis);
  for (TimelineRow& row : timeline.rows) row.label = fmt::format("{} {}", axis, row.rank);
  return timeline;
}

std::string_view meaning(CauseKind kind) {
  switch (kind) {
    case CauseKind::forward_conversion:
      return "an op wants its input laid out otherwise than it is";
    case CauseKind::backward_conversion:
      return "a gradient arrives laid out otherwise than is wanted";
    case CauseKind::regather:
      return "gathered once more: the backward reads it, and the forward did not keep it";
    case CauseKind::recompute:
      return "the forward runs once more before the backward";
    case CauseKind::ring:
      return "parts of what every rank reads go round";
    case CauseKind::stage_forward:
      return "an activation goes to the next pipeline stage";
    case CauseKind::stage_backward:
      return "its gradient comes back";
    case CauseKind::data_sync:
      return "ranks saw different data, or hold the same parameter";
    case CauseKind::model_sync:
      return "ranks hold partial gradients of the same parameter";
    case CauseKind::tied_sync:
      return "one parameter lives on several stages";
    case CauseKind::parameter_gather:
      return "a parameter is stored in parts and needed whole";
    case CauseKind::parameter_update:
      return "each rank updated its part of the parameters";
    case CauseKind::framework:
      return "no layout asks for it: the framework does so";
  }
  return "";
}

std::string subject(const Event& event) {
  if (event.members.size() < 2) return event.tensor;
  return fmt::format("{} +{}", event.members.front(), event.members.size() - 1);
}

namespace {

void check_stage(const Program& program, std::optional<int64_t> stage) {
  if (!stage || (*stage >= 0 && *stage < program.pipeline_ranks)) return;
  throw UserError("shape2trace", {{"--stage", "no stage " + std::to_string(*stage),
                                   program.pipeline_axis.empty()
                                       ? "a model with a pipeline"
                                       : fmt::format("0 to {}", program.pipeline_ranks - 1),
                                   "", "out-of-range"}});
}

// Whether anything of the program, or of one stage, is called so.
bool has_module(const Program& program, const std::string& pattern,
                std::optional<int64_t> stage = std::nullopt) {
  const Selection wanted{std::nullopt, stage, pattern};
  const auto any = [&](const std::vector<Event>& events) {
    return std::any_of(events.begin(), events.end(),
                       [&](const Event& e) { return selects(wanted, program, e); });
  };
  Event named;
  for (const PictureOp& op : program.picture.ops) {
    named.module = op.module;
    named.node = op.name;
    if ((!stage || op.stage % program.pipeline_ranks == *stage) && belongs(named, pattern))
      return true;
  }
  for (const Stage& s : program.stages) {
    for (const Segment* segment : {&s.forward, &s.backward})
      for (const Segment::Item& item : segment->items)
        if (selects(wanted, program, item.event)) return true;
    if (any(s.send_activation) || any(s.send_gradient) || any(s.recv_activation) ||
        any(s.recv_gradient))
      return true;
  }
  return any(program.after);
}

void check_module(const Program& program, const std::string& pattern) {
  if (pattern.empty() || has_module(program, pattern)) return;
  std::vector<std::string> names;
  std::set<std::string> known;  // "layers.3" of "layers.3.attn" too
  for (const PictureOp& op : program.picture.ops) {
    const std::string& name = op.module.empty() ? op.name : op.module;
    if (names.empty() || names.back() != name) names.push_back(name);
    for (size_t i = 0; i <= name.size(); ++i)
      if (i == name.size() || name[i] == '.') known.insert(name.substr(0, i));
  }
  const std::vector<std::string> guesses(known.begin(), known.end());
  throw UserError("shape2trace",
                  {{"--module", "no module is called " + quoted(pattern),
                    "one of " + quoted_list(names) + ", a pattern like \"layers.*\", or an owner",
                    did_you_mean(pattern, guesses), "bad-option"}});
}

// A module of another stage issues nothing there: an answer of nothing would look like one. Whoever
// asks rank by rank gets an empty list.
void check_module_and_stage(const Program& program, const Selection& asked) {
  const std::optional<int64_t> stage = asked.stage;
  if (asked.module.empty() || !stage || has_module(program, asked.module, stage)) return;
  std::vector<int64_t> there;
  for (int64_t s = 0; s < program.pipeline_ranks; ++s)
    if (has_module(program, asked.module, s)) there.push_back(s);
  const std::string word = there.size() == 1 ? "stage " : "stages ";
  throw UserError("shape2trace",
                  {{"--module",
                    fmt::format("{} is on {}{}, but --stage is {}", quoted(asked.module), word,
                                ranges(there), *stage),
                    fmt::format("a module of stage {}, or {}{}", *stage, word, ranges(there)), "",
                    "contradiction"}});
}

}  // namespace

Selection selection_of(const Program& program, const ReportOptions& options) {
  check_rank(program, options.rank);
  check_stage(program, options.stage);
  check_module(program, options.module);
  Selection selection{options.rank, options.stage, options.module};
  check_module_and_stage(program, selection);
  return selection;
}

void check_rank(const Program& program, std::optional<Rank> rank) {
  if (!rank || (rank->value >= 0 && rank->value < program.mesh.world())) return;
  throw UserError("shape2trace",
                  {{"--rank", "no rank " + std::to_string(rank->value),
                    fmt::format("0 to {}", program.mesh.world() - 1), "", "out-of-range"}});
}

}  // namespace s2t
