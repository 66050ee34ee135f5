#include "analyzer/report/diagram.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/base/text.h"
#include "analyzer/base/unicode.h"
#include "analyzer/report/dot.h"
#include "analyzer/report/filter.h"
#include "analyzer/report/folding.h"
#include "analyzer/report/marks.h"
#include "analyzer/report/short_names.h"
#include "analyzer/report/table.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

constexpr size_t kLongestName = 40;  // columns of a box; the tooltip has the whole name

std::string brief(const std::string& name) {
  return shortened(one_line(capped(name)), kLongestName);
}

std::string amount(Count least, Count most) {
  return least >= most ? commas(least) : commas(least) + " to " + commas(most);
}

// So that it stands for another of its kind too, which has more or less.
void widen(Mark& mark, const Mark& other) {
  mark.least = std::min(mark.least, other.least);
  mark.most = std::max(mark.most, other.most);
  mark.most_calls = std::max({mark.calls, mark.most_calls, other.calls});
  mark.most_tensors = std::max({mark.tensors, mark.most_tensors, other.tensors});
  mark.calls = std::min(mark.calls, other.calls);
  mark.tensors = std::min(mark.tensors, other.tensors);
}

// Whether no collective is drawn at all.
bool empty(const Marks& marks) {
  const auto all_empty = [](const std::vector<std::vector<Mark>>& lists) {
    return std::all_of(lists.begin(), lists.end(), [](const auto& list) { return list.empty(); });
  };
  return all_empty(marks.at) && all_empty(marks.buckets) && all_empty(marks.batch) &&
         marks.after.empty();
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

class Drawer {
 public:
  Drawer(const Program& program, const Filter& filter)
      : program_(program),
        picture_(program.picture),
        short_(program.mesh),
        marks_(select_marks(program, filter)),
        fold_(program, marks_, filter.ops()) {
    diagram_.title = brief(program.model);
    diagram_.shown = short_(filter.words());
    if (!diagram_.shown.empty() && empty(marks_)) diagram_.shown += ": there are none";
    find_reasons();
  }

  Diagram run() {
    diagram_.frames = fold_.frames();
    std::map<int32_t, int> stages;  // that are drawn, and their frames
    for (const int32_t o : fold_.ops())
      if (fold_.drawn(o)) {
        draw_op(o);
        stages.emplace(op(o).stage, fold_.stage_frame(o));
      }
    for (const auto& [stage, frame] : stages) {
      for (const Mark& m : marks_.batch.at(static_cast<size_t>(stage))) draw_before(m, frame);
      for (const Mark& m : marks_.buckets.at(static_cast<size_t>(stage))) draw_bucket(m, frame);
    }
    draw_after();
    return std::move(diagram_);
  }

 private:
  const PictureValue& value(int32_t v) const { return picture_.values[static_cast<size_t>(v)]; }
  const PictureOp& op(int32_t o) const { return picture_.ops[static_cast<size_t>(o)]; }
  const std::vector<Mark>& marks(int32_t o) const { return marks_.at[static_cast<size_t>(o)]; }

  // What is drawn once may be pruned for as many reasons as there are ops and stages that it stands
  // for, and be more and less in some.
  void find_reasons() {
    std::set<std::pair<int32_t, int32_t>> stages;  // the drawn one, and one that it stands for
    for (const int32_t o : fold_.ops()) {
      const int32_t drawn = fold_.stands_for(o);
      add_reasons(marks(drawn), marks(o));
      stages.emplace(op(drawn).stage, op(o).stage);
    }
    for (const auto& [drawn, s] : stages) {
      std::vector<Mark>& buckets = marks_.buckets.at(static_cast<size_t>(drawn));
      const std::vector<Mark>& others = marks_.buckets.at(static_cast<size_t>(s));
      add_reasons(buckets, others);
      for (size_t i = 0; i < others.size(); ++i) widen(buckets.at(i), others[i]);
    }
  }
  void add_reasons(const std::vector<Mark>& drawn, const std::vector<Mark>& marks) {
    for (size_t i = 0; i < marks.size(); ++i) {
      if (!marks[i].pruned) continue;
      std::vector<std::string>& known = reasons_[&drawn.at(i)];
      const std::string& reason = marks[i].pruned->because;
      if (std::find(known.begin(), known.end(), reason) == known.end()) known.push_back(reason);
    }
  }
  void tell_reasons(const Mark& mark, Box& b) const {
    constexpr size_t kMost = 3;
    const std::vector<std::string>& reasons = reasons_.at(&mark);
    const size_t told = reasons.size() <= kMost ? reasons.size() : kMost - 1;
    if (reasons.size() > 1)
      b.lines.push_back(fmt::format("for {} reasons, not all the same:", reasons.size()));
    for (size_t i = 0; i < told; ++i)
      b.lines.push_back(shortened(one_line(capped(reasons[i])), 60));
    if (told < reasons.size())
      b.lines.push_back(fmt::format("and {} other reasons", reasons.size() - told));
    b.tooltip += "; pruned: " + join(reasons, "; or: ");
  }

  size_t box(Box b) {
    diagram_.boxes.push_back(std::move(b));
    return diagram_.boxes.size() - 1;
  }
  // What goes the same way at once is one arrow.
  void arrow(Arrow a) {
    const std::tuple way{a.from, a.to, a.kind};
    const auto [at, fresh] = drawn_arrows_.emplace(way, diagram_.arrows.size());
    if (fresh) return diagram_.arrows.push_back(std::move(a));
    std::vector<std::string>& lines = diagram_.arrows[at->second].lines;
    if (a.lines.empty() || std::find(lines.begin(), lines.end(), a.lines.front()) != lines.end())
      return;
    lines.insert(lines.end(), a.lines.begin(), a.lines.end());
  }
  void gradient(size_t from, size_t to, std::string text, bool pruned) {
    std::vector<std::string> lines;
    if (!text.empty()) lines.push_back(std::move(text));
    arrow({from, to, std::move(lines), ArrowKind::gradient, pruned, ""});
  }

  // A value on its way, in a layout.
  void flow(size_t from, size_t to, int32_t v, const std::string& layout) {
    Arrow a{from, to, {}, ArrowKind::value, false, ""};
    const std::string name = brief(value(v).name), drawn = short_(layout);
    a.lines = {fmt::format("{}: {}", name, words(value(v).shape)), drawn};
    if (name != value(v).name || drawn != layout) a.tooltip = value(v).name + ": " + layout;
    arrow(std::move(a));
  }

  std::optional<size_t> op_box(int32_t o) const {
    if (o < 0 || !fold_.shown(o)) return std::nullopt;
    const auto at = op_boxes_.find(fold_.stands_for(o));
    return at == op_boxes_.end() ? std::nullopt : std::optional(at->second);
  }

  // What leaves the op that makes a value, or the leaf itself.
  size_t source(int32_t v) {
    const int32_t producer = value(v).producer;
    if (const auto made = op_box(producer)) return *made;
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
    if (op(o).kind == "transfer")
      draw_transfer(o);
    else
      draw_plain(o);
    for (const Mark& m : marks(o))
      if (m.before >= 0) draw_before(m, fold_.frame(o));
  }

  void draw_plain(int32_t o) {
    const PictureOp& drawn = op(o);
    Box b{BoxKind::op, {}, "", "", false, fold_.frame(o)};
    const std::string name = brief(drawn.name);
    b.lines.push_back(name == drawn.kind ? name : drawn.kind + " " + name);
    b.tooltip = drawn.kind + " " + drawn.name + (drawn.module.empty() ? "" : " in " + drawn.module);
    for (const int32_t v : drawn.inputs)
      if (value(v).parameter) {
        b.lines.push_back(fmt::format("{}: {}, {}", brief(value(v).name), words(value(v).shape),
                                      short_(value(v).layout)));
        b.tooltip += "; " + value(v).name + " " + value(v).layout;
      }
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

  // One box, however many values a collective moves.
  size_t mark_box(const Mark& mark, int frame) {
    const auto at = mark_boxes_.find(&mark);
    if (at != mark_boxes_.end()) return at->second;
    return mark_boxes_[&mark] = box(box_of(mark, frame));
  }
  Box box_of(const Mark& mark, int frame) const {
    const Event& e = *mark.event;
    const Family& family = program_.families[e.family];
    Box b{box_kind(e.phase),      {},   "", family.axes.empty() ? "" : family.axes.front(),
          mark.pruned != nullptr, frame};
    b.lines.push_back(fmt::format("{}{} {}", mark.pruned ? "pruned: " : "", to_string(e.phase),
                                  mark.message ? "send, recv" : info(e.op).name));
    b.lines.push_back(fmt::format("over {}, {}", brief(short_(family.name)),
                                  amount(mark.least, mark.most) + " B"));
    if (std::max(mark.calls, mark.most_calls) > 1)
      b.lines.back() += fmt::format(", {} calls", amount(mark.calls, mark.most_calls));
    if (!mark.names.empty()) b.lines.push_back(brief(join(mark.names, ", ")));
    if (mark.tensors > mark.calls)
      b.lines.push_back(amount(mark.tensors, mark.most_tensors) + " tensors in all");
    const std::string what = mark.names.empty() ? subject(e) : join(mark.names, ", ");
    b.tooltip = fmt::format("{} over {}: {}", what, family.name, program_.causes.at(e.cause).why);
    if (mark.pruned) tell_reasons(mark, b);
    return b;
  }

  // Producer -> forward collectives -> op, and gradients the other way.
  void connect(int32_t o, size_t here, int32_t v, const std::string& consumed) {
    const std::pair key{v, consumed};
    size_t from = source(v);
    bool converted = false;
    for (const Mark& m : marks(o)) {
      if (!carries(m, v) || !is_conversion(m)) continue;
      const size_t collective = mark_box(m, fold_.frame(o));
      if (converted)
        arrow({from, collective, {}, ArrowKind::value, false, ""});
      else
        flow(from, collective, v, value(v).layout);
      from = converted_[key] = collective;
      converted = true;
    }
    if (const auto shared = converted_.find(key); !converted && shared != converted_.end())
      from = shared->second;
    flow(from, here, v, consumed);
    for (const Mark& m : marks(o))
      if (carries(m, v) && !is_conversion(m) && !m.event->ring) connect_back(m, o, here, source(v));
    connect_ring(o, here, v);
  }

  // The rounds of a ring in the backward, one after the other.
  void connect_ring(int32_t o, size_t here, int32_t v) {
    size_t from = here;
    for (const Mark& m : marks(o)) {
      if (!carries(m, v) || is_conversion(m) || !m.event->ring) continue;
      const size_t round = mark_box(m, fold_.frame(o));
      gradient(from, round, "", false);
      from = round;
    }
    if (from != here) gradient(from, source(v), "", false);
  }

  // A collective of several values is at each of them; the gradient of one is "x.grad".
  bool carries(const Mark& m, int32_t v) const {
    const std::vector<std::string>& all = m.event->members;
    const auto moves = [&](const std::string& name) {
      return std::find(all.begin(), all.end(), name) != all.end();
    };
    return m.event->value == v || moves(value(v).name) || moves(value(v).name + ".grad");
  }

  static bool is_conversion(const Mark& m) { return m.event->phase == Phase::forward; }

  void connect_back(const Mark& m, int32_t o, size_t here, size_t producer) {
    const size_t collective = mark_box(m, fold_.frame(o));
    const CauseKind kind = program_.causes.at(m.event->cause).kind;
    const bool again = kind == CauseKind::regather || kind == CauseKind::recompute;
    const bool pruned = m.pruned != nullptr;
    gradient(again ? producer : here, collective, "", pruned);
    gradient(collective, again ? here : producer, "", pruned);
  }

  // Gathers come before the op; what reduces its gradient, and the update, after.
  void connect_parameter(int32_t o, size_t here, int32_t v) {
    for (const Mark& m : marks(o)) {
      if (m.event->value != v) continue;
      const size_t collective = mark_box(m, fold_.frame(o));
      const CauseKind kind = program_.causes.at(m.event->cause).kind;
      const bool gather = kind == CauseKind::parameter_gather;
      const std::string name = brief(subject(*m.event));
      const bool pruned = m.pruned != nullptr;
      if (gather && m.event->phase == Phase::forward)
        arrow({collective, here, {name}, ArrowKind::value, pruned, ""});
      else if (gather)
        gradient(collective, here, name, pruned);
      else
        gradient(here, collective, name + (kind == CauseKind::parameter_update ? "" : " gradient"),
                 pruned);
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
      if (m.message || !is_conversion(m) || m.event->value < 0) continue;
      const size_t collective = mark_box(m, fold_.frame(o));
      flow(before, collective, v, value(v).layout);
      before = collective;
    }
    flow(before, *there, v, drawn.consumed.at(0));
    for (const size_t b : back) {
      gradient(*there, b, "", false);
      gradient(b, from, "", false);
    }
    for (const Mark& m : marks(o))
      if (!m.message && !is_conversion(m) && m.event->value >= 0) connect_back(m, o, *there, from);
  }

  // What the framework sends before an op, of no value of the graph.
  void draw_before(const Mark& m, int frame) {
    if (const auto next = op_box(m.before))
      arrow({mark_box(m, frame), *next, {}, ArrowKind::order, false, ""});
  }

  // Buckets hold parameters of many layers: one box for all of a stage that are of one kind. What
  // belongs to the backward or comes after it is dashed, gradients and parameters alike.
  void draw_bucket(const Mark& m, int frame) {
    const size_t collective = mark_box(m, frame);
    const std::optional<size_t> from = shown_user(*m.event);
    if (!from) return;
    const bool pruned = m.pruned != nullptr;
    switch (program_.causes.at(m.event->cause).kind) {
      case CauseKind::parameter_gather:
        return gradient(collective, *from, "parameters", pruned);
      case CauseKind::parameter_update:
        return gradient(*from, collective, "parameters", pruned);
      default:
        return gradient(*from, collective, "gradients", pruned);
    }
  }

  // The op that an event is for or, if that is not shown, the first that reads one of its members.
  std::optional<size_t> shown_user(const Event& e) const {
    if (const auto user = op_box(e.user)) return user;
    const auto is_member = [&](int32_t v) {
      return value(v).parameter &&
             std::find(e.members.begin(), e.members.end(), value(v).name) != e.members.end();
    };
    for (const int32_t o : fold_.ops())
      if (std::any_of(op(o).inputs.begin(), op(o).inputs.end(), is_member)) return op_box(o);
    return std::nullopt;
  }

  // What the framework does once a step, in its order.
  void draw_after() {
    if (marks_.after.empty()) return;
    const auto frame = static_cast<int>(diagram_.frames.size());
    diagram_.frames.push_back({"after the last backward", -1});
    std::optional<size_t> before;
    for (const Mark& m : marks_.after) {
      const size_t here = mark_box(m, frame);
      if (!m.stages.empty() && program_.pipeline_ranks > 1)
        diagram_.boxes[here].lines.push_back(
            fmt::format("stage{} {}", m.stages.size() == 1 ? "" : "s", ranges(m.stages)));
      if (before) arrow({*before, here, {}, ArrowKind::order, false, ""});
      before = here;
    }
  }

  const Program& program_;
  const GraphPicture& picture_;
  const ShortNames short_;
  Marks marks_;
  const Folding fold_;
  Diagram diagram_;
  std::map<const Mark*, std::vector<std::string>> reasons_;  // of those that are drawn and pruned
  std::map<int32_t, size_t> op_boxes_, leaf_boxes_;
  std::map<std::pair<int32_t, std::string>, size_t> converted_;
  std::map<std::tuple<size_t, size_t, ArrowKind>, size_t> drawn_arrows_;
  std::map<const Mark*, size_t> mark_boxes_;
};

// What a kind of box is called where Graphviz or Mermaid draws it, and what it stands for.
struct Meaning {
  BoxKind kind;
  std::string_view graphviz, mermaid, what;
};
constexpr Meaning kMeanings[] = {
    {BoxKind::op, "box", "box", "op"},
    {BoxKind::forward, "rounded", "rounded ends", "forward collective"},
    {BoxKind::recompute, "parallelogram", "parallelogram", "recomputed collective"},
    {BoxKind::backward, "hexagon", "hexagon", "backward collective"},
    {BoxKind::grad_sync, "octagon", "doubled sides", "gradient sync"},
    {BoxKind::step, "note", "trapezium", "optimizer step"},
};

std::vector<std::string> legend_of(const Diagram& d, Drawn drawn) {
  const bool mermaid = drawn == Drawn::by_mermaid;
  const auto any = [](const auto& list, const auto& is) {
    return std::any_of(list.begin(), list.end(), is);
  };
  const auto arrows = [&](ArrowKind kind) {
    return any(d.arrows, [&](const Arrow& a) { return a.kind == kind; });
  };
  std::vector<std::string> legend;
  for (const Meaning& m : kMeanings)
    if (any(d.boxes, [&](const Box& b) { return b.kind == m.kind; }))
      legend.push_back(fmt::format("{}: {}", mermaid ? m.mermaid : m.graphviz, m.what));
  if (any(d.boxes, [](const Box& b) { return b.pruned; }))
    legend.emplace_back("dashed outline: pruned");
  if (arrows(ArrowKind::value)) legend.emplace_back("solid arrow: values");
  if (arrows(ArrowKind::gradient))
    legend.emplace_back(mermaid ? "dotted arrow: gradients and updates"
                                : "dashed arrow: gradients and updates");
  if (arrows(ArrowKind::order))
    legend.emplace_back(mermaid ? "line without head: order" : "dotted arrow: order");
  legend.emplace_back("shapes: of the whole mesh, one microbatch");
  legend.emplace_back("B: input bytes of one rank and call");
  return legend;
}

}  // namespace

Diagram draw_program(const Program& program, const ReportOptions& options) {
  Diagram diagram = Drawer(program, Filter(program, options)).run();
  if (options.most_boxes == 0 || diagram.boxes.size() <= options.most_boxes) return diagram;
  throw TooMuchToDraw(
      "shape2trace",
      {{"--format",
        fmt::format("{} boxes are too many for a laid-out picture", diagram.boxes.size()),
        fmt::format("at most {}", options.most_boxes),
        "Draw less with --layers, --phase, --axis or --rank, or take the format dot.",
        "too-many-boxes"}});
}

// Two phrases of the legend a line, so that a small graph stays narrow; Mermaid would wrap them.
std::string diagram_heading(const Diagram& diagram, Drawn drawn) {
  std::string text = diagram.title;
  if (!diagram.shown.empty()) text += "\n" + diagram.shown;
  bool second = true;  // of a line
  for (const std::string& phrase : legend_of(diagram, drawn)) {
    second = !second && drawn == Drawn::by_graphviz;
    text += (second ? "; " : "\n") + phrase;
  }
  return text;
}

}  // namespace s2t
