#include "analyzer/report/marks.h"

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/program/owner.h"

namespace s2t {
namespace {

class Marker {
 public:
  Marker(const Program& program, const Filter& filter) : program_(program), filter_(filter) {
    marks_.at.resize(program.picture.ops.size());
    marks_.buckets.resize(program.stages.size());
    marks_.batch.resize(program.stages.size());
    for (size_t o = 0; o < program.picture.ops.size(); ++o) {
      const PictureOp& op = program.picture.ops[o];
      ops_.emplace(std::pair{op.stage, op.name}, o);
      for (const int32_t v : op.inputs)
        if (const PictureValue& read = program.picture.values[static_cast<size_t>(v)];
            read.parameter)
          layers_.emplace(read.name, layer_of(op));
    }
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
    count_repeats(marks_.after);
    return std::move(marks_);
  }

 private:
  CauseKind kind(const Event& e) const { return program_.causes.at(e.cause).kind; }

  // What holds parameters of one layer alone is drawn in that layer, unless others of its kind hold
  // those of several.
  void find_buckets() {
    for_each_kept_event(program_, [this](const Event& e) {
      std::set<std::optional<int64_t>> layers;
      for (const std::string& member : e.members)
        if (const auto layer = layers_.find(member); layer != layers_.end())
          layers.insert(layer->second);
      if (layers.size() > 1) bucketed_.insert(kind(e));
    });
  }

  // The two ends of a border list their messages in the same order.
  void messages(const std::vector<Event>& sends, const std::vector<Event>& receives) {
    for (size_t i = 0; i < sends.size(); ++i)
      if (filter_.issues(receives.at(i)) || filter_.issues(sends[i])) place(sends[i], nullptr);
  }

  void add(const Event& e, const Pruned* pruned) {
    if (filter_.issues(e)) place(e, pruned);
  }

  void place(const Event& e, const Pruned* pruned) {
    if (!filter_.wants(e)) return;
    if (e.ring && e.op == Collective::recv) return;  // is what another rank's send is drawn as
    if (e.value < 0) return place_framework(e);
    if (e.phase != Phase::forward && bucketed_.contains(kind(e)))
      return merge(marks_.buckets.at(stage_of(e)), e, pruned, Repeats::are_calls,
                   [&](const Mark& m) { return alike(*m.event, e) && m.pruned == pruned; });
    const int32_t op = e.user >= 0 ? e.user : program_.picture.values[e.value].producer;
    if (op < 0) return;
    merge(marks_.at[static_cast<size_t>(op)], e, pruned, Repeats::are_ranks, [&](const Mark& m) {
      return e.call >= 0 && m.event->call == e.call && m.pruned == pruned;
    });
  }

  // Before an op: as part of its layer, or, if it is of no layer, of its stage.
  void place_framework(const Event& e) {
    const auto op = ops_.find({static_cast<int32_t>(e.stage.value_or(0)), e.node});
    if (op == ops_.end() || (e.phase != Phase::forward && e.phase != Phase::recompute))
      return place_after(e);
    const bool of_op = block_of(e.module) == block_of(program_.picture.ops[op->second].module);
    merge(of_op ? marks_.at[op->second] : marks_.batch.at(stage_of(e)), e, nullptr,
          Repeats::are_calls,
          [&](const Mark& m) { return equal(*m.event, e) && m.event->node == e.node; });
    last_->before = static_cast<int32_t>(op->second);
    last_->names.push_back(e.tensor);
  }

  // Behind the last backward, where what several stages do alike is one mark.
  void place_after(const Event& e) {
    merge(marks_.after, e, nullptr, Repeats::are_ranks, [&](const Mark& m) {
      return equal(*m.event, e) && m.event->tensor == e.tensor && e.stage && !m.stages.empty() &&
             std::find(m.stages.begin(), m.stages.end(), *e.stage) == m.stages.end();
    });
    last_->names = {e.tensor};
    if (e.stage) last_->stages.push_back(*e.stage);
  }

  static void count_repeats(std::vector<Mark>& marks) {
    std::vector<Mark> kept;
    for (Mark& m : marks)
      if (!kept.empty() && kept.back().names == m.names && kept.back().stages == m.stages &&
          equal(*kept.back().event, *m.event))
        kept.back().calls += m.calls;
      else
        kept.push_back(std::move(m));
    marks = std::move(kept);
  }

  // Of the framework, and no picture tells them apart but by name.
  static bool equal(const Event& a, const Event& b) {
    return alike(a, b) && a.value < 0 && b.value < 0 && a.dtype == b.dtype && a.volume == b.volume;
  }

  static bool alike(const Event& a, const Event& b) {
    return a.phase == b.phase && a.family == b.family && a.op == b.op;
  }

  size_t stage_of(const Event& e) const {
    return std::min(static_cast<size_t>(e.stage.value_or(0)), marks_.buckets.size() - 1);
  }

  // What an event that joins a mark is: another call, or the same on other ranks or stages.
  enum class Repeats : uint8_t { are_calls, are_ranks };

  // Into the first mark that it is one with, else as a new one; `last_` is where it went.
  template <class Same>
  void merge(std::vector<Mark>& marks, const Event& e, const Pruned* pruned, Repeats repeats,
             const Same& same) {
    const Count bytes = e.volume.input_bytes;
    const size_t tensors = std::max<size_t>(e.members.size(), 1);
    const auto found = std::find_if(marks.begin(), marks.end(), same);
    if (found == marks.end()) {
      marks.push_back({&e, pruned, bytes, bytes, e.op == Collective::send, 1, tensors, {}, {}, -1});
      last_ = &marks.back();
      return;
    }
    last_ = &*found;
    last_->least = std::min(last_->least, bytes);
    last_->most = std::max(last_->most, bytes);
    if (repeats == Repeats::are_ranks) return;
    last_->calls += 1;
    last_->tensors += tensors;
  }

  const Program& program_;
  const Filter& filter_;
  std::map<std::pair<int32_t, std::string>, size_t> ops_;              // by stage and name
  std::map<std::string, std::optional<int64_t>, std::less<>> layers_;  // of parameters
  std::set<CauseKind> bucketed_;
  Marks marks_;
  Mark* last_ = nullptr;
};

}  // namespace

Marks select_marks(const Program& program, const Filter& filter) {
  return Marker(program, filter).run();
}

}  // namespace s2t
