#include "analyzer/report/diagram.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/base/text.h"
#include "analyzer/report/fold.h"
#include "analyzer/report/json_writer.h"
#include "analyzer/report/marks.h"
#include "analyzer/report/table.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

constexpr size_t kLongestName = 40;     // columns of a box; the tooltip has the whole name
constexpr size_t kLongestPeriod = 400;  // ops of one layer

// One short line; a name that runs from right to left is isolated, or it would reorder the shape.
std::string brief(const std::string& name) {
  const std::string text = shortened(one_line(valid_utf8(name)), kLongestName);
  for (const char c : text) {  // Hebrew, Arabic and their neighbours, U+0580 to U+07FF
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0xD6 && byte <= 0xDF) return "\u2068" + text + "\u2069";
  }
  return text;
}

std::string bytes(const Mark& mark) {
  if (mark.least == mark.most) return commas(mark.most) + " B";
  return commas(mark.least) + " to " + commas(mark.most) + " B";
}

BoxKind box_kind(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return BoxKind::forward;
    case Phase::backward:
      return BoxKind::backward;
    case Phase::recompute:
      return BoxKind::recompute;
    case Phase::grad_sync:
      return BoxKind::grad_sync;
    case Phase::step:
      return BoxKind::step;
  }
  return BoxKind::forward;
}

// Which ops are drawn, and which drawn op stands for each of the others.
class Folding {
 public:
  Folding(const Program& program, const Marks& marks, std::vector<int32_t> ops)
      : picture_(program.picture), marks_(marks), ops_(std::move(ops)) {
    stands_for_.resize(picture_.ops.size());
    frame_.assign(picture_.ops.size(), -1);
    for (size_t o = 0; o < stands_for_.size(); ++o) stands_for_[o] = static_cast<int32_t>(o);
    for (size_t i = 0; i < ops_.size(); ++i) look(i);
    fold(program);
  }

  int32_t stands_for(int32_t op) const { return stands_for_[static_cast<size_t>(op)]; }
  bool drawn(int32_t op) const { return stands_for(op) == op; }
  int frame(int32_t op) const { return frame_[static_cast<size_t>(op)]; }
  const std::vector<int32_t>& ops() const { return ops_; }
  const std::vector<Frame>& frames() const { return frames_; }
  bool shown(int32_t op) const { return places_.contains(op); }

 private:
  // Everything that alike ops agree on but where their inputs come from.
  void look(size_t place) {
    const PictureOp& op = at(place);
    places_[ops_[place]] = place;
    std::string text = op.kind;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const PictureValue& v = value(op.inputs[i]);
      text += fmt::format("|{}/{}/{}/{}/{}", words(v.shape), v.layout, op.consumed[i],
                          static_cast<int>(v.dtype), v.parameter);
    }
    for (const Mark& m : marks_.at[static_cast<size_t>(ops_[place])])
      text += fmt::format("|{}.{}.{}.{}.{}.{}", static_cast<int>(m.event->phase),
                          static_cast<int>(m.event->op), m.event->family, m.least, m.most,
                          m.pruned != nullptr);
    looks_.push_back(seen_.emplace(text, seen_.size()).first->second);
  }

  const PictureOp& at(size_t place) const { return picture_.ops[static_cast<size_t>(ops_[place])]; }
  const PictureValue& value(int32_t v) const { return picture_.values[static_cast<size_t>(v)]; }

  // Inputs come from the same distance, from the same value, or from outside.
  bool alike(size_t i, size_t j) const {
    if (looks_[i] != looks_[j] || at(i).inputs.size() != at(j).inputs.size()) return false;
    for (size_t k = 0; k < at(i).inputs.size(); ++k) {
      const int32_t a = at(i).inputs[k], b = at(j).inputs[k];
      if (a == b || value(a).parameter) continue;
      const auto from = places_.find(value(a).producer), to = places_.find(value(b).producer);
      if (from == places_.end() || to == places_.end()) continue;
      if (i - from->second != j - to->second) return false;
    }
    return true;
  }

  void fold(const Program& program) {
    std::vector<std::pair<size_t, size_t>> stages;  // places
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (i == 0 || at(i).stage != at(i - 1).stage) stages.push_back({i, i});
      stages.back().second = i + 1;
    }
    const auto same_stage = [&](size_t a, size_t b) {
      const size_t n = stages[a].second - stages[a].first;
      if (n != stages[b].second - stages[b].first) return false;
      for (size_t i = 0; i < n; ++i)
        if (!alike(stages[a].first + i, stages[b].first + i)) return false;
      return true;
    };
    std::vector<bool> folded(stages.size());
    for (size_t s = 0; s < stages.size(); ++s) {
      if (folded[s]) continue;
      std::vector<int64_t> numbers{at(stages[s].first).stage};
      std::vector<size_t> same;
      for (size_t t = s + 1; t < stages.size(); ++t)
        if (!folded[t] && same_stage(s, t)) {
          folded[t] = true;
          same.push_back(t);
          numbers.push_back(at(stages[t].first).stage);
        }
      fold_stage(program, stages[s], numbers);
      for (const size_t t : same)
        for (size_t i = 0; i < stages[s].second - stages[s].first; ++i)
          replace(stages[t].first + i, stages[s].first + i);
    }
  }

  void replace(size_t place, size_t by) {
    stands_for_[static_cast<size_t>(ops_[place])] = stands_for(ops_[by]);
  }

  void fold_stage(const Program& program, std::pair<size_t, size_t> span,
                  const std::vector<int64_t>& numbers) {
    int outer = -1;
    if (program.stages.size() > 1) {
      outer = static_cast<int>(frames_.size());
      frames_.push_back({numbers.size() == 1 ? fmt::format("stage {}", numbers[0])
                                             : fmt::format("stages {}: {} times the same",
                                                           ranges(numbers), numbers.size()),
                         -1});
    }
    for (size_t i = span.first; i < span.second; ++i) frame_of(i) = outer;
    for (const Run& run : find_runs(span.first, span.second, kLongestPeriod,
                                    [this](size_t i, size_t j) { return alike(i, j); })) {
      const auto inner = static_cast<int>(frames_.size());
      frames_.push_back({run_title(run), outer});
      for (size_t i = run.first; i < run.first + run.period; ++i) frame_of(i) = inner;
      for (size_t i = run.first + run.period; i < run.end(); ++i)
        replace(i, run.first + (i - run.first) % run.period);
    }
  }

  std::string run_title(const Run& run) const {
    const auto first = layer_of(at(run.first)), last = layer_of(at(run.end() - 1));
    std::string title = fmt::format("{} times the same", run.times);
    if (first && last && *last - *first + 1 == static_cast<int64_t>(run.times))
      title = fmt::format("layers {} to {}: ", *first, *last) + title;
    return title;
  }

  int& frame_of(size_t place) { return frame_[static_cast<size_t>(ops_[place])]; }

  const GraphPicture& picture_;
  const Marks& marks_;
  std::vector<int32_t> ops_;
  std::map<int32_t, size_t> places_;  // op -> place in ops_
  std::map<std::string, size_t> seen_;
  std::vector<size_t> looks_;  // by place
  std::vector<int32_t> stands_for_;
  std::vector<int> frame_;
  std::vector<Frame> frames_;
};

class Drawer {
 public:
  Drawer(const Program& program, const ReportOptions& options)
      : program_(program),
        picture_(program.picture),
        marks_(select_marks(program, options)),
        fold_(program, marks_, select_ops(program, options)) {}

  Diagram run() {
    diagram_.title = brief(program_.model);
    diagram_.frames = fold_.frames();
    std::set<int32_t> stages;
    for (const int32_t o : fold_.ops())
      if (fold_.drawn(o)) {
        draw_op(o);
        stages.insert(op(o).stage);
      }
    for (const int32_t s : stages) draw_buckets(marks_.buckets.at(static_cast<size_t>(s)));
    return std::move(diagram_);
  }

 private:
  const PictureValue& value(int32_t v) const { return picture_.values[static_cast<size_t>(v)]; }
  const PictureOp& op(int32_t o) const { return picture_.ops[static_cast<size_t>(o)]; }
  const std::vector<Mark>& marks(int32_t o) const { return marks_.at[static_cast<size_t>(o)]; }

  size_t box(Box b) {
    diagram_.boxes.push_back(std::move(b));
    return diagram_.boxes.size() - 1;
  }
  void arrow(size_t from, size_t to, std::vector<std::string> lines, bool backward, bool pruned) {
    if (drawn_arrows_.insert({from, to, backward}).second)
      diagram_.arrows.push_back({from, to, std::move(lines), backward, pruned});
  }

  std::vector<std::string> describe(int32_t v, const std::string& layout) const {
    return {fmt::format("{}: {}", brief(value(v).name), words(value(v).shape)), layout};
  }

  // What leaves the op that makes a value, or the leaf itself.
  size_t source(int32_t v) {
    const int32_t producer = value(v).producer;
    if (producer >= 0 && fold_.shown(producer)) {
      const auto at = op_boxes_.find(fold_.stands_for(producer));
      if (at != op_boxes_.end()) return at->second;
    }
    const auto [at, fresh] = leaf_boxes_.emplace(v, diagram_.boxes.size());
    if (fresh)
      box({BoxKind::leaf,
           {brief(value(v).name)},
           producer < 0 ? value(v).name : value(v).name + ", from a part that is not shown",
           "",
           false,
           -1});
    return at->second;
  }

  void draw_op(int32_t o) {
    const PictureOp& drawn = op(o);
    if (drawn.kind == "transfer")
      draw_transfer(o);
    else
      draw_plain(o);
  }

  void draw_plain(int32_t o) {
    const PictureOp& drawn = op(o);
    Box b{BoxKind::op, {}, "", "", false, fold_.frame(o)};
    const std::string name = brief(drawn.name);
    b.lines.push_back(name == drawn.kind ? name : drawn.kind + " " + name);
    b.tooltip = drawn.kind + " " + drawn.name + (drawn.module.empty() ? "" : " in " + drawn.module);
    for (const int32_t v : drawn.inputs)
      if (value(v).parameter)
        b.lines.push_back(fmt::format("{}: {}, {}", brief(value(v).name), words(value(v).shape),
                                      value(v).layout));
    const size_t here = op_boxes_[o] = box(std::move(b));
    std::set<int32_t> done;
    for (size_t i = 0; i < drawn.inputs.size(); ++i)
      if (const int32_t v = drawn.inputs[i]; done.insert(v).second) {
        if (value(v).parameter)
          connect_parameter(o, here, v);
        else
          connect(o, here, v, drawn.consumed[i]);
      }
  }

  size_t mark_box(const Mark& mark, int frame) {
    const Event& e = *mark.event;
    const Family& family = program_.families[e.family];
    Box b{box_kind(e.phase),      {},   "", family.axes.empty() ? "" : family.axes.front(),
          mark.pruned != nullptr, frame};
    b.lines.push_back(fmt::format("{}{} {}", mark.pruned ? "pruned: " : "", to_string(e.phase),
                                  mark.message ? "send, recv" : info(e.op).name));
    b.lines.push_back(fmt::format("over {}, {}", brief(family.name), bytes(mark)));
    if (mark.pruned) b.lines.push_back(shortened(one_line(mark.pruned->because), 60));
    b.tooltip = fmt::format("{}: {}", e.tensor, program_.causes.at(e.cause).why);
    if (mark.pruned) b.tooltip += "; pruned: " + mark.pruned->because;
    return box(std::move(b));
  }

  // Producer -> forward collectives -> op, and gradients the other way.
  void connect(int32_t o, size_t here, int32_t v, const std::string& consumed) {
    const std::pair key{v, consumed};
    size_t from = source(v);
    bool converted = false;
    for (const Mark& m : marks(o)) {
      if (m.event->value != v || !is_conversion(m)) continue;
      const size_t collective = mark_box(m, fold_.frame(o));
      arrow(from, collective, converted ? std::vector<std::string>{} : describe(v, value(v).layout),
            false, false);
      from = converted_[key] = collective;
      converted = true;
    }
    if (const auto shared = converted_.find(key); !converted && shared != converted_.end())
      from = shared->second;
    arrow(from, here, describe(v, consumed), false, false);
    for (const Mark& m : marks(o))
      if (m.event->value == v && !is_conversion(m)) connect_back(m, o, here, source(v));
  }

  static bool is_conversion(const Mark& m) { return m.event->phase == Phase::forward; }

  void connect_back(const Mark& m, int32_t o, size_t here, size_t producer) {
    const size_t collective = mark_box(m, fold_.frame(o));
    const CauseKind kind = program_.causes.at(m.event->cause).kind;
    const bool again = kind == CauseKind::regather || kind == CauseKind::recompute;
    const bool pruned = m.pruned != nullptr;
    arrow(again ? producer : here, collective, {}, true, pruned);
    arrow(collective, again ? here : producer, {}, true, pruned);
  }

  // Gathers come before the op; what reduces its gradient, and the update, after.
  void connect_parameter(int32_t o, size_t here, int32_t v) {
    for (const Mark& m : marks(o)) {
      if (m.event->value != v) continue;
      const size_t collective = mark_box(m, fold_.frame(o));
      const bool gather = program_.causes.at(m.event->cause).kind == CauseKind::parameter_gather;
      const bool forward = m.event->phase == Phase::forward;
      const std::vector<std::string> name{brief(value(v).name)};
      if (gather)
        arrow(collective, here, name, !forward, m.pruned != nullptr);
      else
        arrow(here, collective, {name[0] + " gradient"}, true, m.pruned != nullptr);
    }
  }

  // A border is its messages: the forward one on the way of the value, the backward one beside it.
  void draw_transfer(int32_t o) {
    const PictureOp& drawn = op(o);
    const int32_t v = drawn.inputs.at(0);
    std::vector<size_t> back;
    std::optional<size_t> there;
    const size_t from = source(v);
    for (const Mark& m : marks(o))
      if (m.message && m.event->phase == Phase::forward)
        there = mark_box(m, fold_.frame(o));
      else if (m.message)
        back.push_back(mark_box(m, fold_.frame(o)));
    if (!there) there = box({BoxKind::op, {"stage border"}, drawn.name, "", false, fold_.frame(o)});
    op_boxes_[o] = *there;
    size_t before = from;
    for (const Mark& m : marks(o)) {  // what is reduced before it is sent
      if (m.message || !is_conversion(m)) continue;
      const size_t collective = mark_box(m, fold_.frame(o));
      arrow(before, collective, describe(v, value(v).layout), false, false);
      before = collective;
    }
    arrow(before, *there, describe(v, drawn.consumed.at(0)), false, false);
    for (const size_t b : back) {
      arrow(*there, b, {}, true, false);
      arrow(b, from, {}, true, false);
    }
    for (const Mark& m : marks(o))
      if (!m.message && !is_conversion(m)) connect_back(m, o, *there, from);
  }

  // Buckets hold parameters of many layers: one box for all of a stage that are of one kind.
  void draw_buckets(const std::vector<const Event*>& events) {
    struct Sum {
      Mark mark;
      size_t calls = 0, members = 0;
    };
    std::map<std::tuple<Phase, size_t, Collective>, Sum> sums;
    for (const Event* e : events) {
      Sum& sum = sums[{e->phase, e->family, e->op}];
      if (sum.calls++ == 0) sum.mark = {e, nullptr, e->volume.input_bytes, 0, false};
      sum.members += std::max<size_t>(e->members.size(), 1);
      sum.mark.least = std::min(sum.mark.least, e->volume.input_bytes);
      sum.mark.most = std::max(sum.mark.most, e->volume.input_bytes);
    }
    for (const auto& [key, sum] : sums) {
      const std::optional<size_t> from = shown_user(*sum.mark.event);
      if (!from) continue;
      const size_t collective = mark_box(sum.mark, diagram_.boxes[*from].frame);
      diagram_.boxes[collective].lines.push_back(fmt::format(
          "{} call{}, {} tensors in all", sum.calls, sum.calls == 1 ? "" : "s", sum.members));
      arrow(*from, collective, {"gradients"}, true, false);
    }
  }

  std::optional<size_t> shown_user(const Event& e) const {
    if (e.user < 0 || !fold_.shown(e.user)) return std::nullopt;
    const auto at = op_boxes_.find(fold_.stands_for(e.user));
    return at == op_boxes_.end() ? std::nullopt : std::optional(at->second);
  }

  const Program& program_;
  const GraphPicture& picture_;
  const Marks marks_;
  const Folding fold_;
  Diagram diagram_;
  std::map<int32_t, size_t> op_boxes_, leaf_boxes_;
  std::map<std::pair<int32_t, std::string>, size_t> converted_;
  std::set<std::tuple<size_t, size_t, bool>> drawn_arrows_;
};

}  // namespace

Diagram draw_program(const Program& program, const ReportOptions& options) {
  Diagram diagram = Drawer(program, options).run();
  if (options.most_boxes == 0 || diagram.boxes.size() <= options.most_boxes) return diagram;
  throw TooMuchToDraw(
      "shape2trace",
      {{"--format",
        fmt::format("{} boxes are too many for a laid-out picture", diagram.boxes.size()),
        fmt::format("at most {}", options.most_boxes),
        "Draw less with --layers, --phase, --axis or --rank, or take the format dot.",
        "too-many-boxes"}});
}

std::string_view diagram_legend() {
  return "box: op; rounded: forward collective; hexagon: backward collective; octagon: gradient "
         "sync; dashed outline: pruned; solid arrow: values; dashed arrow: gradients";
}

}  // namespace s2t
