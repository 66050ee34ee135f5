#include "analyzer/schedule/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "analyzer/base/text.h"
#include "analyzer/mesh/family.h"
#include "analyzer/schedule/emit.h"
#include "analyzer/schedule/picture.h"
#include "analyzer/schedule/pipeline.h"
#include "analyzer/schedule/remarks.h"
#include "analyzer/schedule/simulate.h"

namespace s2t {
namespace {

// What identifies one backward conversion, to tell which of the unpruned ones really run.
using StepKey = std::tuple<BackwardStep::Kind, TensorId, AtomSet, Collective>;

std::vector<StepKey> keys_of(const BackwardStep& step) {
  std::vector<StepKey> keys;
  for (const Step& s : step.steps)
    if (s.collective) keys.push_back({step.kind, step.value, s.atoms, *s.collective});
  return keys;
}

class Assembler {
 public:
  Assembler(const Graph& graph, const Forward& forward, const Needs& needs,
            const Backward& backward, const Sync& sync)
      : graph_(graph),
        forward_(forward),
        needs_(needs),
        backward_(backward),
        sync_(sync),
        emitter_(graph, forward, program_) {
    for (const StatedCall& call : graph.calls)
      if (call.before.valid()) stated_.emplace(call.before, &call);
  }

  Program assemble(const Unpruned& unpruned, const Costs& costs) {
    describe();
    emitter_.register_axes();
    program_.stages.resize(static_cast<size_t>(graph_.stages));
    for (size_t o = 0; o < graph_.ops.size(); ++o) forward_op(OpId(o));
    borders();
    backward_steps();
    after();
    list_pruned(unpruned);
    order(costs);
    sort_families();
    program_.remarks = remarks_of(graph_, forward_, backward_, sync_, program_);
    loads();
    program_.picture = picture_of(graph_, forward_);
    return std::move(program_);
  }

 private:
  void describe() {
    program_.model = graph_.name;
    program_.mesh = graph_.mesh;
    program_.microbatches = graph_.microbatches;
    for (const TensorId p : parameters_of(graph_))
      program_.parameters = checked_add(program_.parameters, elements(graph_.value(p).shape));
    const auto atom = graph_.mesh.pipeline_atom();
    if (!graph_.pipeline || !atom) return;
    program_.pipeline_axis = graph_.pipeline->axis;
    program_.pipeline_ranks = graph_.mesh.atom(*atom).size;
    program_.chunks = graph_.pipeline->chunks;
  }

  // In creation order. Which there are is known only now.
  void sort_families() {
    std::vector<size_t> order(program_.families.size()), place, now(order.size());
    for (const Family& f : program_.families)
      place.push_back(place_in(graph_.group_order, graph_.mesh, f));
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return place[a] < place[b]; });
    std::vector<Family> sorted;
    for (size_t i = 0; i < order.size(); ++i) {
      sorted.push_back(program_.families[order[i]]);
      now[order[i]] = i;
    }
    program_.families = std::move(sorted);
    for_each_stored_event(program_, [&](Event& e) { e.family = now[e.family]; });
  }

  Stage& stage(int s) { return program_.stages[static_cast<size_t>(s)]; }

  // --- forward -----------------------------------------------------------------------------------

  void forward_op(OpId id) {
    const Op& op = graph_.op(id);
    // What a border needs reduced is reduced before the send, by the stage that has it.
    const int where = op.is("transfer") ? op.stage - 1 : op.stage;
    synchronise(SyncCall::Where::before_forward_op, id, stage(op.stage).forward);
    conversions_of(id, where, Phase::forward);
    append(stage(op.stage).forward, emitter_.ring(id, Phase::forward));
  }

  // What an op has converted for it, after what the framework sends before it.
  void conversions_of(OpId id, int where, Phase phase) {
    const Op& op = graph_.op(id);
    const bool again = phase == Phase::recompute;
    for (auto [at, end] = stated_.equal_range(id); at != end; ++at) {
      const CallDecl& decl = at->second->decl;
      if (decl.when != CallDecl::When::forward) continue;
      if (!again || (decl.again && !graph_.switches.recompute_gathers))
        append(segment_of(op.stage, again), in_phase({emitter_.stated(*at->second)}, phase),
               decl.once ? Segment::When::first : Segment::When::every);
    }
    for (const int index : forward_.ops[id.at()].conversions) {
      if (index < 0) continue;
      const Conversion& c = forward_.conversions[static_cast<size_t>(index)];
      std::set<int>& done = again ? emitted_again_ : emitted_;
      if (c.consumer != id || !done.insert(index).second) continue;
      if (again && !repeated(c)) continue;
      Emitter::Context context;
      context.phase = phase;
      if (again) context.kind = CauseKind::recompute;
      context.stage = where;
      context.producer = graph_.value(c.value).producer;
      context.consumer = id;
      context.why = again ? fmt::format("{} is computed again for the backward: {}",
                                        graph_.op(id).name, forward_why(c))
                          : forward_why(c);
      append(segment_of(where, again), emitter_.conversion(c.value, c.steps, context));
    }
  }

  // What is computed again may find the results of other collectives kept.
  bool repeated(const Conversion& c) const {
    return !graph_.switches.recompute_gathers ||
           std::all_of(c.steps.begin(), c.steps.end(), [](const Step& s) {
             return !s.collective || *s.collective == Collective::all_gather;
           });
  }

  Segment& segment_of(int s, bool backward) {
    return backward ? stage(s).backward : stage(s).forward;
  }

  static std::vector<Event> in_phase(std::vector<Event> events, Phase phase) {
    for (Event& e : events) e.phase = phase;
    return events;
  }

  // Before the first backward of ops that are computed again together.
  void recompute(OpId first) {
    const int number = graph_.op(first).recomputed;
    if (number < 0 || !recomputed_.insert(number).second) return;
    for (size_t o = 0; o < graph_.ops.size(); ++o)
      if (graph_.ops[o].recomputed == number) again(OpId(o));
  }

  void again(OpId id) {
    const int where = graph_.op(id).stage;
    conversions_of(id, where, Phase::recompute);
    append(stage(where).backward, emitter_.ring(id, Phase::recompute));
  }

  std::string forward_why(const Conversion& c) const {
    const Value& v = graph_.value(c.value);
    const std::string source = v.leaf()         ? fmt::format("the model has {} as", v.name)
                               : named_after(v) ? fmt::format("{} is made as", v.name)
                                                : fmt::format("{} leaves {} as", maker(v), v.name);
    return fmt::format("{} {}, {} wants {}", source, to_string(c.from, graph_.mesh),
                       graph_.op(c.consumer).name, to_string(c.to, graph_.mesh));
  }

  const std::string& maker(const Value& v) const { return graph_.op(v.producer).name; }
  // An op without a name of its own has that of its output.
  bool named_after(const Value& v) const { return maker(v) == v.name; }

  static void append(Segment& segment, std::vector<Event> events,
                     Segment::When when = Segment::When::every) {
    for (Event& e : events) segment.items.push_back({std::move(e), when});
  }

  void synchronise(SyncCall::Where where, OpId op, Segment& segment) {
    if (by_anchor_.empty())
      for (const SyncCall& call : sync_.calls) by_anchor_[{call.where, call.op}].push_back(&call);
    const auto it = by_anchor_.find({where, op});
    if (it == by_anchor_.end()) return;
    for (const SyncCall* call : it->second)
      append(segment, emitter_.synchronisation(*call), static_cast<Segment::When>(call->when));
  }

  // --- borders -----------------------------------------------------------------------------------

  void borders() {
    if (program_.pipeline_axis.empty()) return;
    for (const Op& op : graph_.ops) {
      if (!op.is("transfer")) continue;
      const TensorId value = op.outputs[0];
      const bool back = needs_.reached[value.at()] && is_differentiable(graph_.value(value).dtype);
      const int to = op.stage, from = op.stage - 1;
      message(op, Collective::send, from, false, stage(from).send_activation);
      message(op, Collective::recv, to, false, stage(to).recv_activation);
      if (!back) continue;
      message(op, Collective::send, to, true, stage(to).send_gradient);
      message(op, Collective::recv, from, true, stage(from).recv_gradient);
    }
  }

  void message(const Op& transfer, Collective op, int stage, bool backward,
               std::vector<Event>& out) {
    const Event event = emitter_.message(transfer, transfer.outputs[0], op, stage, backward);
    if (graph_.pipeline->header > 0) out.push_back(emitter_.header_of(event));
    out.push_back(event);
  }

  // --- backward ----------------------------------------------------------------------------------

  void backward_steps() {
    std::set<OpId> started;
    OpId due;  // its parameters' gradients are complete but for what follows in their own layout
    for (const BackwardStep& step : backward_.steps) {
      if (due.valid() && !completes(step, due)) flush(due);
      Segment& segment = stage(graph_.op(step.op).stage).backward;
      if (started.insert(step.op).second) {
        synchronise(SyncCall::Where::before_backward_op, step.op, segment);
        stated_before_backward(step.op, segment);
      }
      recompute(step.op);
      if (step.kind == BackwardStep::Kind::op) {
        due = step.op;
        append(segment, emitter_.ring(step.op, Phase::backward));
      } else {
        append(segment, backward_events(step));
      }
    }
    if (due.valid()) flush(due);
  }

  void stated_before_backward(OpId op, Segment& segment) {
    for (auto [at, end] = stated_.equal_range(op); at != end; ++at)
      if (at->second->decl.when == CallDecl::When::backward)
        append(segment, {emitter_.stated(*at->second)});
  }

  // A parameter's own conversion, or what a fused linear reduces, comes before its gradient is
  // ready; the gradient of an input does not hold it up.
  bool completes(const BackwardStep& step, OpId op) const {
    return step.op == op && step.kind == BackwardStep::Kind::gradient &&
           (graph_.value(step.value).parameter || step.fused);
  }

  void flush(OpId& due) {
    synchronise(SyncCall::Where::after_backward_op, due, stage(graph_.op(due).stage).backward);
    due = {};
  }

  std::vector<Event> backward_events(const BackwardStep& step) {
    Emitter::Context context;
    context.phase = Phase::backward;
    context.stage = graph_.op(step.op).stage;
    context.producer = graph_.value(step.value).producer;
    const Value& v = graph_.value(step.value);
    if (step.kind == BackwardStep::Kind::regather) {
      context.kind = CauseKind::regather;
      context.consumer = step.op;
      context.why = fmt::format(
          "the gathered {} was not kept after the forward ({}), so it is gathered once more: the "
          "weight gradient of {} reads it",
          v.name, v.stored_by, graph_.op(step.op).name);
    } else {
      context.kind = CauseKind::backward_conversion;
      context.consumer = step.sources.empty() ? step.op : step.sources.back();
      context.why = gradient_why(step);
    }
    return emitter_.conversion(step.value, step.steps, context);
  }

  std::string gradient_why(const BackwardStep& step) const {
    const Value& v = graph_.value(step.value);
    const std::string target = v.leaf()         ? v.name + " itself"
                               : named_after(v) ? "the op that made it"
                                                : maker(v) + ", which produced it,";
    std::string why =
        fmt::format("the gradient of {} arrives as {}, {} takes {}", v.name,
                    to_string(step.from, graph_.mesh), target, to_string(step.to, graph_.mesh));
    if (step.fused)
      why += "; nothing needs it, but the fused column linear reduces it whenever it runs";
    return why;
  }

  // --- after the last backward -------------------------------------------------------------------

  void after() {
    synchronise_after(false);
    for (const auto when : {CallDecl::When::synchronised, CallDecl::When::before_update})
      stated(when);
    synchronise_after(true);
    stated(CallDecl::When::after_update);
  }

  void synchronise_after(bool update) {
    for (const SyncCall& call : sync_.calls)
      if (call.where == SyncCall::Where::after &&
          (call.purpose == SyncCall::Purpose::update) == update)
        for (Event& e : emitter_.synchronisation(call)) program_.after.push_back(std::move(e));
  }

  void stated(CallDecl::When when) {
    for (const StatedCall& call : graph_.calls)
      if (call.decl.when == when) program_.after.push_back(emitter_.stated(call));
  }

  // --- pruned ------------------------------------------------------------------------------------

  void list_pruned(const Unpruned& unpruned) {
    if (unpruned.needs == needs_) return;
    std::multiset<StepKey> real;
    std::set<OpId> ran;
    for (const BackwardStep& step : backward_.steps) {
      for (const StepKey& key : keys_of(step)) real.insert(key);
      ran.insert(step.op);
    }
    for (const BackwardStep& step : unpruned.backward.steps) {
      BackwardStep missing = step;
      missing.steps.clear();
      for (const Step& s : step.steps) {
        const auto it =
            s.collective ? real.find({step.kind, step.value, s.atoms, *s.collective}) : real.end();
        if (it != real.end())
          real.erase(it);
        else if (s.collective)
          missing.steps.push_back(s);
      }
      if (!missing.steps.empty()) prune(backward_events(missing), because(step));
      if (step.kind == BackwardStep::Kind::op && !ran.count(step.op))
        prune(sent_by_ring(step.op), because(step));
    }
    prune_synchronisation(unpruned);
  }

  // What any rank would send, once for each exchange.
  std::vector<Event> sent_by_ring(OpId op) {
    std::vector<Event> sent;
    for (Event& e : emitter_.ring(op, Phase::backward)) {
      if (e.op == Collective::recv || (!sent.empty() && sent.back().cause == e.cause)) continue;
      e.ranks = emitter_.ranks_of_stage(static_cast<int>(*e.stage));
      sent.push_back(std::move(e));
    }
    return sent;
  }

  std::string because(const BackwardStep& step) const {
    if (step.kind == BackwardStep::Kind::regather) {
      for (const TensorId t : graph_.op(step.op).inputs)
        if (graph_.value(t).parameter && !needs_.needed[t.at()])
          return why_pruned(graph_, needs_, t);
    }
    if (step.value.valid() && !needs_.needed[step.value.at()])
      return why_pruned(graph_, needs_, step.value);
    return "nothing upstream of " + graph_.op(step.op).name + " requires grad";
  }

  // A frozen parameter has no gradient to synchronise.
  void prune_synchronisation(const Unpruned& unpruned) {
    const auto parameters = parameters_of(graph_);
    const bool all_trained = std::all_of(parameters.begin(), parameters.end(),
                                         [&](TensorId p) { return needs_.needed[p.at()]; });
    if (graph_.sync.kind == SyncKind::none || all_trained) return;
    Graph alone = graph_;
    alone.sync.kind = SyncKind::per_parameter;
    const bool parts = graph_.sync.kind != SyncKind::per_parameter &&
                       graph_.sync.kind != SyncKind::bucketed;  // reduce_scatter would run
    for (SyncCall& call : plan_gradient_sync(alone, unpruned.backward).calls) {
      if (parts) in_parts(call);
      const TensorId p = call.members[0];
      if (call.purpose != SyncCall::Purpose::data || needs_.needed[p.at()]) continue;
      prune(emitter_.synchronisation(call), why_pruned(graph_, needs_, p));
    }
  }

  void in_parts(SyncCall& call) const {
    const auto n = static_cast<Count>(graph_.mesh.size(call.atoms));
    call.collective = Collective::reduce_scatter;
    call.elements = ceil_div(call.elements, n);
    call.shape = {static_cast<int64_t>(call.elements * n)};
  }

  void prune(std::vector<Event> events, const std::string& because) {
    for (Event& e : events)
      program_.pruned.push_back(
          {fmt::format("p{}", program_.pruned.size()), std::move(e), because});
  }

  // --- order -------------------------------------------------------------------------------------

  void order(const Costs& costs) {
    const bool trains = graph_.loss.valid();
    if (program_.pipeline_axis.empty()) {
      program_.order.reserve(static_cast<size_t>(graph_.microbatches) * (trains ? 2 : 1));
      for (int32_t m = 0; m < graph_.microbatches; ++m) {
        program_.order.push_back({SpanKind::forward, 0, m, -1, 0, -1});
        if (trains) program_.order.push_back({SpanKind::backward, 0, m, -1, 0, -1});
      }
      return;
    }
    const PipelinePlan plan = plan_of(!trains);
    program_.batched_p2p = plan.batching == Batching::batched;
    const RankedActions ranks = build_schedule(plan);
    Played played = play(plan, ranks, costs);
    program_.order.reserve(played.order.size());
    for (const ActionRef& at : played.order) {
      const Action& a = ranks[static_cast<size_t>(at.rank)][static_cast<size_t>(at.index)];
      program_.order.push_back(
          {static_cast<SpanKind>(a.kind), a.stage, a.microbatch, a.batch, at.rank, a.peer});
    }
    program_.timeline = std::move(played.timeline);
    program_.timeline->title = graph_.name;
  }

  PipelinePlan plan_of(bool forward_only) const {
    const PipelineDecl& decl = *graph_.pipeline;
    PipelinePlan plan;
    plan.schedule = decl.schedule;
    plan.ranks = static_cast<int>(program_.pipeline_ranks);
    plan.chunks = static_cast<int>(decl.chunks);
    plan.microbatches = static_cast<int>(graph_.microbatches);
    plan.drain = decl.drain == "reversed" ? Drain::reversed : Drain::forward;
    for (const Batching b : {Batching::single, Batching::batched, Batching::overlapped})
      if (name(b) == decl.p2p) plan.batching = b;
    if (decl.warm_up_all) plan.variant = PipelineVariant::megatron_08;
    plan.forward_only = forward_only;
    const auto reasons = refusals(plan);
    if (!reasons.empty()) {
      Diagnostics diagnostics(graph_.file);
      for (const std::string& reason : reasons)
        diagnostics.add({decl.pointer, reason, "", "", "schedule"});
      diagnostics.throw_if_any();
    }
    return plan;
  }

  void loads() {
    for (const Routing& r : forward_.routings) {
      if (r.counts.empty()) continue;  // no dispatch uses it
      Load load{r.name, "", {}, r.hottest(), r.load_ratio(), r.dropped};
      for (const Axis& axis : graph_.mesh.axes())
        if (axis.atoms == r.atoms && (load.axis.empty() || axis.expert)) load.axis = axis.name;
      for (int64_t c = 0; c < r.ranks; ++c) load.rows.push_back(r.rows_at_expert(c));
      program_.loads.push_back(std::move(load));
    }
  }

  const Graph& graph_;
  const Forward& forward_;
  const Needs& needs_;
  const Backward& backward_;
  const Sync& sync_;
  Program program_;
  Emitter emitter_;
  std::set<int> emitted_, emitted_again_;          // conversions
  std::set<int> recomputed_;                       // numbers
  std::multimap<OpId, const StatedCall*> stated_;  // by the op that follows
  std::map<std::pair<SyncCall::Where, OpId>, std::vector<const SyncCall*>> by_anchor_;
};

}  // namespace

Program assemble(const Graph& graph, const Forward& forward, const Needs& needs,
                 const Backward& backward, const Sync& sync, const Unpruned& unpruned,
                 const Costs& costs) {
  return Assembler(graph, forward, needs, backward, sync).assemble(unpruned, costs);
}

}  // namespace s2t
