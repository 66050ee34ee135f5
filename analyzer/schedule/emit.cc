#include "analyzer/schedule/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "analyzer/base/text.h"
#include "analyzer/forward/expert_role.h"
#include "analyzer/mesh/family.h"

namespace s2t {

Emitter::Emitter(const Graph& graph, const Forward& forward, Program& program)
    : graph_(graph), forward_(forward), program_(program), text_(graph.mesh) {}

// Groups are created family by family: in the order the model states, else fastest axis first; then
// the expert factorisation likewise, with the parts of its axes. Families of several axes follow as
// they are first used.
void Emitter::register_axes() {
  std::vector<const Axis*> order;
  for (const std::string& name : graph_.group_order)
    if (const Axis* axis = graph_.mesh.find(name)) order.push_back(axis);
  for (const bool expert : {false, true}) {
    std::vector<const Axis*> rest;
    for (const Axis& axis : graph_.mesh.axes())
      if (axis.expert == expert && (expert || !axis.part)) rest.push_back(&axis);
    std::reverse(rest.begin(), rest.end());
    order.insert(order.end(), rest.begin(), rest.end());
  }
  for (const Axis* axis : order) family({axis->name, {axis->name}, axis->atoms, {}});
}

size_t Emitter::family(const Family& f) {
  const auto [it, fresh] = family_index_.emplace(f.name, program_.families.size());
  if (fresh) program_.families.push_back(f);
  return it->second;
}

size_t Emitter::family(AtomSet atoms, bool prefer_expert) {
  const auto [at, fresh] = family_of_atoms_.try_emplace({atoms, prefer_expert});
  if (fresh) at->second = family(family_of(graph_.mesh, atoms, prefer_expert));
  return at->second;
}

size_t Emitter::cause(Cause c) {
  program_.causes.push_back(std::move(c));
  return program_.causes.size() - 1;
}

RankSet Emitter::ranks_of_stage(int stage) const {
  const auto atom = graph_.mesh.pipeline_atom();
  if (!atom || program_.pipeline_ranks == 1) return {};
  return {{{program_.pipeline_axis, atom_bit(*atom), {stage % program_.pipeline_ranks}}}};
}

std::vector<Event> Emitter::conversion(TensorId value, const std::vector<Step>& steps,
                                       const Context& context) {
  std::vector<Event> events;
  for (const Step& step : steps) {
    if (!step.collective || graph_.mesh.size(step.atoms) == 1) continue;
    for (Event& e : step_events(value, step, context)) events.push_back(std::move(e));
  }
  return events;
}

Event Emitter::base_event(TensorId value, const Step& step, const Context& context) {
  const Value& v = graph_.value(value);
  Event e;
  e.phase = context.phase;
  e.op = *step.collective;
  e.combiner = step.combiner;
  e.family = family(step.atoms, moves_among_experts(graph_, forward_, value));
  e.tensor = v.name;
  // What the producer left Partial is the producer's to reduce, forward and backward; any other
  // step belongs to the op that wants the value differently.
  const bool produced_partial = (forward_.layouts[value.at()].partial() & step.atoms) != 0;
  const OpId owner = produced_partial ? context.producer : context.consumer;
  const OpId node = owner.valid()              ? owner
                    : context.consumer.valid() ? context.consumer
                                               : context.producer;
  if (node.valid()) {
    e.node = graph_.op(node).name;
    e.module = graph_.op(node).module;
  }
  e.value = value.value;
  e.user = context.consumer.value;
  e.stage = context.stage;
  e.ranks = ranks_of_stage(context.stage);
  e.dtype = v.dtype;
  Cause c;
  c.kind = context.kind;
  c.why = context.why;
  c.producer = describe_mode(graph_, forward_, context.producer, step.atoms);
  c.consumer = describe_mode(graph_, forward_, context.consumer, step.atoms);
  if (node.valid()) c.rule = graph_.op(node).notation->text;
  c.vote = describe_vote(graph_, forward_, node, step.atoms);
  c.from = text_(step.before);
  c.to = text_(step.after);
  c.planner = to_string(step);
  e.cause = cause(std::move(c));
  return e;
}

std::vector<Event> Emitter::step_events(TensorId value, const Step& step, const Context& context) {
  const Value& v = graph_.value(value);
  Event e = base_event(value, step, context);
  std::vector<Event> out;
  if (v.routing) {
    ragged(value, step, e, out);
    return out;
  }
  const int64_t n = graph_.mesh.size(step.atoms);
  e.shape = sent_shape(value, step);
  const Count after = elements(local_shape_of(graph_, value, step.after));
  e.volume = volume(e.op, step_elements(e.op, elements(e.shape), after), size_of(e.dtype), n);
  if (e.op == Collective::all_to_all) equal_splits(step, n, e);
  out.push_back(std::move(e));
  return out;
}

// A rank hands over equal parts for all others: ceil-sized blocks, so a dim that becomes sharded and
// does not divide is padded (torch/distributed/tensor/placement_types.py: _reduce_shard_value,
// _to_new_shard_dim).
Shape Emitter::sent_shape(TensorId value, const Step& step) const {
  Shape shape = local_shape_of(graph_, value, step.before);
  if (step.to_dim < 0) return shape;
  const auto d = static_cast<size_t>(step.to_dim);
  shape[d] = local_shape_of(graph_, value, step.after)[d] * graph_.mesh.size(step.atoms);
  return shape;
}

// Rows of an equal all-to-all run along the dim that becomes sharded.
void Emitter::equal_splits(const Step& step, int64_t n, Event& e) const {
  const auto rows = static_cast<Count>(e.shape[static_cast<size_t>(step.to_dim)]);
  const Count each = rows / static_cast<Count>(n);
  const Count row_elements = rows == 0 ? 0 : elements(e.shape) / rows;
  const std::vector<Count> split(static_cast<size_t>(n), each);
  e.splits = Splits{row_elements, split, split};
}

// Per coordinate, the lowest one that sends and receives the same: with a balanced load all do.
const std::vector<int64_t>& Emitter::alike(const Routing& routing) {
  const auto [at, fresh] = alike_.try_emplace(&routing);
  std::vector<int64_t>& first = at->second;
  if (!fresh) return first;
  const auto same = [&](size_t a, size_t b) {
    return routing.rows[a] == routing.rows[b] &&
           std::all_of(routing.rows.begin(), routing.rows.end(),
                       [&](const auto& sent) { return sent[a] == sent[b]; });
  };
  for (int64_t c = 0; c < routing.ranks; ++c) {
    first.push_back(c);
    for (int64_t other = 0; other < c && first.back() == c; ++other)
      if (first[static_cast<size_t>(other)] == other &&
          same(static_cast<size_t>(other), static_cast<size_t>(c)))
        first.back() = other;
  }
  return first;
}

// Ragged values: numbers differ by the coordinate along the expert-parallel axis; ranks with equal
// numbers share an event, and all events of the one collective share a call. Ranks that neither give
// nor get a row have none.
void Emitter::ragged(TensorId value, const Step& step, const Event& base, std::vector<Event>& out) {
  const Value& v = graph_.value(value);
  const Routing& routing = forward_.routings[*v.routing];
  const int64_t n = graph_.mesh.size(step.atoms);
  const Axis* axis = nullptr;
  for (const Axis& a : graph_.mesh.axes())
    if (a.atoms == routing.atoms && (!axis || a.expert)) axis = &a;
  Shape row = sent_shape(value, step);
  row.erase(row.begin(), row.begin() + 2);
  Shape row_after = local_shape_of(graph_, value, step.after);
  row_after.erase(row_after.begin(), row_after.begin() + 2);
  const Count row_elements = elements(row);
  const bool to_experts = step.from_dim == 1;
  std::vector<std::vector<int64_t>> coordinates;
  const std::vector<int64_t>& alike_to = alike(routing);
  std::vector<size_t> event_of;  // per coordinate
  for (int64_t c = 0; c < routing.ranks; ++c) {
    if (const auto first = static_cast<size_t>(alike_to[static_cast<size_t>(c)]);
        first < event_of.size()) {
      event_of.push_back(event_of[first]);
      coordinates[event_of.back()].push_back(c);
      continue;
    }
    Event e = base;
    const Count rows = ragged_rows(graph_, forward_, value, step.before, c);
    e.shape = row;
    e.shape.insert(e.shape.begin(), static_cast<int64_t>(rows));
    const Count before = checked_mul(rows, row_elements);
    const Count after =
        checked_mul(ragged_rows(graph_, forward_, value, step.after, c), elements(row_after));
    e.volume = volume(e.op, step_elements(e.op, before, after), size_of(e.dtype), n);
    if (e.op == Collective::all_to_all && step.atoms == routing.atoms) {
      auto send = routing.dispatch_send(c), recv = routing.dispatch_recv(c);
      if (!to_experts) std::swap(send, recv);
      const Count own = send[static_cast<size_t>(c)];
      const Count row_bytes = checked_mul(row_elements, size_of(e.dtype));
      const Count received = std::accumulate(recv.begin(), recv.end(), Count{0});
      e.volume = {before, checked_mul(rows, row_bytes), checked_mul(received, row_bytes),
                  checked_mul(rows - own, row_bytes)};
      e.splits = Splits{row_elements, std::move(send), std::move(recv)};
    }
    size_t same = 0;
    while (same < out.size() && !(out[same].volume == e.volume && out[same].splits == e.splits))
      ++same;
    if (same == out.size()) {
      out.push_back(std::move(e));
      coordinates.emplace_back();
    }
    event_of.push_back(same);
    coordinates[same].push_back(c);
  }
  if (out.size() == 1) return;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].call = calls_;
    out[i].ranks.along.push_back({axis ? axis->name : "", routing.atoms, coordinates[i]});
  }
  std::erase_if(
      out, [](const Event& e) { return e.volume.input_bytes == 0 && e.volume.output_bytes == 0; });
  ++calls_;
}

namespace {

CauseKind kind_of(SyncCall::Purpose purpose) {
  switch (purpose) {
    case SyncCall::Purpose::data:
      return CauseKind::data_sync;
    case SyncCall::Purpose::model:
      return CauseKind::model_sync;
    case SyncCall::Purpose::tied:
      return CauseKind::tied_sync;
    case SyncCall::Purpose::gather:
      return CauseKind::parameter_gather;
    case SyncCall::Purpose::update:
      return CauseKind::parameter_update;
  }
  return CauseKind::data_sync;
}

std::string why_of(const SyncCall& call, const std::string& what, const std::string& family,
                   int64_t n, bool averages) {
  switch (call.purpose) {
    case SyncCall::Purpose::data:
      return fmt::format(
          "the {} ranks of {} hold the same {} and saw different data: their gradients are "
          "{}{}",
          n, family, what, averages && call.divisor == n ? "averaged in the call (AVG)" : "summed",
          averages && call.divisor == n ? ""
          : call.divisor > 1            ? fmt::format(", then divided by {} (mean)", call.divisor)
                                        : "");
    case SyncCall::Purpose::model:
      return fmt::format(
          "each of the {} ranks of {} computed {} on a part of the activation: the "
          "gradient is a partial sum",
          n, family, what);
    case SyncCall::Purpose::tied:
      return fmt::format("{} lives on {} pipeline stages: their gradients are summed", what, n);
    case SyncCall::Purpose::gather:
      return fmt::format("{} is stored in {} parts over {} and needed whole", what, n, family);
    case SyncCall::Purpose::update:
      return fmt::format("each of the {} ranks of {} updated its part of {}", n, family, what);
  }
  return "";
}

}  // namespace

// "embd" as Megatron calls it; where other parameters are tied across other stages "embd1", ...
std::string Emitter::tied_name(const Family& f) const {
  std::string name = "embd";
  for (int n = 1;; ++n) {
    const auto it = family_index_.find(name);
    if (it == family_index_.end()) return name;
    const Family& other = program_.families[it->second];
    if (other.atoms == f.atoms && other.members == f.members) return name;
    name = fmt::format("embd{}", n);
  }
}

std::vector<Event> Emitter::synchronisation(const SyncCall& call) {
  Family f = family_of(graph_.mesh, call.atoms, call.expert);
  if (!call.pipeline_members.empty()) {
    f.members = call.pipeline_members;
    if (f.members.size() == static_cast<size_t>(program_.pipeline_ranks)) f.members.clear();
    f.name = tied_name(f);
  }
  const int64_t n = graph_.mesh.group_size(f);
  if (n == 1) return {};
  const Value& v = graph_.value(call.members[0]);
  // Of several readers the one that it is for, as far as that is said.
  const auto reader =
      std::find_if(v.uses.begin(), v.uses.end(), [&](const Use& use) { return use.op == call.op; });
  const Use* use = v.uses.empty() ? nullptr : reader == v.uses.end() ? &v.uses.front() : &*reader;
  Event e;
  e.phase = call.where == SyncCall::Where::before_forward_op ? Phase::forward
            : call.purpose == SyncCall::Purpose::update      ? Phase::step
            : call.purpose != SyncCall::Purpose::gather      ? Phase::grad_sync
                                                             : Phase::backward;
  e.op = call.collective;
  e.family = family(f);
  e.tensor = v.name;
  if (use) e.node = graph_.op(use->op).name;
  if (use) e.module = graph_.op(use->op).module;
  for (const TensorId p : call.members) e.members.push_back(graph_.value(p).name);
  e.value = call.members[0].value;
  if (use) e.user = use->op.value;
  e.stage = call.stage;
  e.ranks = ranks_of_stage(call.stage);
  if (!call.pipeline_members.empty()) {
    e.stage.reset();
    e.ranks = {};
    if (static_cast<int64_t>(call.pipeline_members.size()) < program_.pipeline_ranks)
      e.ranks = {{{program_.pipeline_axis, call.atoms, call.pipeline_members}}};
  }
  e.dtype = call.dtype;
  e.shape = call.shape;
  e.volume = volume(e.op, call.elements, size_of(e.dtype), n);
  const std::string what = e.members.size() == 1
                               ? e.tensor
                               : fmt::format("{} and {} more", e.tensor, e.members.size() - 1);
  Cause c;
  c.kind = kind_of(call.purpose);
  c.why = why_of(call, what, f.name, n, graph_.sync.kind == SyncKind::fsdp);
  c.from = text_(call.from);
  c.to = text_(call.to);
  if (use) c.rule = graph_.op(use->op).notation->text;
  if (use) c.consumer = describe_mode(graph_, forward_, use->op, call.atoms);
  c.planner = std::string(info(call.collective).name) + " over " + f.name;
  e.cause = cause(std::move(c));
  return {e};
}

Event Emitter::stated(const StatedCall& call) {
  const CallDecl& decl = call.decl;
  const Family f = family_of(graph_.mesh, call.atoms, call.expert);
  Event e;
  e.phase = decl.when == CallDecl::When::forward        ? Phase::forward
            : decl.when == CallDecl::When::backward     ? Phase::backward
            : decl.when == CallDecl::When::synchronised ? Phase::grad_sync
                                                        : Phase::step;
  e.op = decl.op;
  e.combiner = decl.combiner;
  e.family = family(f);
  e.tensor = decl.name;
  e.module = decl.module;
  e.node = call.before.valid() ? graph_.op(call.before).name : decl.module;
  e.stage = decl.stage;
  if (call.before.valid()) e.stage = graph_.op(call.before).stage;
  if (e.stage) e.ranks = ranks_of_stage(static_cast<int>(*e.stage));
  e.dtype = decl.dtype;
  e.shape = decl.shape;
  const auto ranks = static_cast<Count>(graph_.mesh.size(call.atoms));
  e.volume = volume(e.op, elements(e.shape), size_of(e.dtype), static_cast<int64_t>(ranks));
  if (e.op == Collective::all_to_all) {
    const std::vector<Count> each(ranks, elements(e.shape) / ranks);
    e.splits = Splits{1, each, each};
  }
  Cause c;
  c.kind = CauseKind::framework;
  c.why = decl.why;
  c.planner = std::string(info(decl.op).name) + " over " + f.name;
  e.cause = cause(std::move(c));
  return e;
}

Event Emitter::message(const Op& transfer, TensorId value, Collective op, int stage,
                       bool backward) {
  const Value& v = graph_.value(value);
  const Layout& layout = forward_.layouts[transfer.outputs[0].at()];
  Event e;
  e.phase = backward ? Phase::backward : Phase::forward;
  e.op = op;
  const AtomSet atoms = atom_bit(*graph_.mesh.pipeline_atom());
  e.family = family(atoms, false);
  e.tensor = v.name;
  e.node = transfer.name;
  if (const OpId producer = graph_.value(transfer.inputs[0]).producer; producer.valid()) {
    e.node = graph_.op(producer).name;
    e.module = graph_.op(producer).module;
  }
  e.value = value.value;
  e.user = graph_.value(value).producer.value;
  e.stage = stage;
  e.ranks = ranks_of_stage(stage);
  const int64_t p = program_.pipeline_ranks;
  const bool outward = stage == transfer.stage - 1;  // this stage is the earlier end of the border
  const int64_t other = outward ? transfer.stage : transfer.stage - 1;
  e.peer_offset = other % p - stage % p;
  e.dtype = v.dtype;
  e.shape = local_shape_of(graph_, value, layout);
  if (v.routing) {
    e.shape.erase(e.shape.begin());
    e.shape[0] = static_cast<int64_t>(ragged_rows(graph_, forward_, value, layout, 0));
  }
  e.volume = volume(op, elements(e.shape), size_of(e.dtype), 2);
  Cause c;
  c.kind = backward ? CauseKind::stage_backward : CauseKind::stage_forward;
  c.why = backward
              ? fmt::format(
                    "stage {} received {} as a leaf that requires grad: its gradient goes back "
                    "to stage {}, whatever is frozen there",
                    transfer.stage, v.name, transfer.stage - 1)
              : fmt::format("stage {} computes {}, stage {} reads it", transfer.stage - 1, v.name,
                            transfer.stage);
  c.rule = transfer.notation->text;
  c.from = c.to = text_(layout);
  c.planner = "stage " + std::to_string(backward ? transfer.stage : transfer.stage - 1) +
              " -> stage " + std::to_string(backward ? transfer.stage - 1 : transfer.stage) +
              " is send/recv";
  e.cause = cause(std::move(c));
  return e;
}

Event Emitter::header_of(Event e) {
  e.tensor += ".header";
  e.dtype = DType::i64;
  e.shape = {graph_.pipeline->header};
  e.volume = volume(e.op, elements(e.shape), size_of(e.dtype), 2);
  Cause c;
  c.kind = program_.causes[e.cause].kind;
  c.why = "how the value behind it was cut over tp: the receiver puts it together again";
  c.planner = program_.causes[e.cause].planner;
  e.cause = cause(std::move(c));
  return e;
}

}  // namespace s2t
