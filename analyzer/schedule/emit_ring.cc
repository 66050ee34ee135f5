// The messages of an op whose operands pass by in a ring (comm/ring.h).
#include <fmt/format.h>

#include "analyzer/base/text.h"
#include "analyzer/schedule/emit.h"

namespace s2t {
namespace {

// Every second coordinate from `first` on.
std::vector<int64_t> every_second(int64_t first, int64_t n) {
  std::vector<int64_t> list;
  for (int64_t c = first; c < n; c += 2) list.push_back(c);
  return list;
}

}  // namespace

std::vector<Event> Emitter::ring(OpId id, Phase phase) {
  const int64_t n = graph_.mesh.size(ring_atoms(forward_.ops[id.at()]));
  if (n > 1 && graph_.switches.ring != RingKind::messages) return ring_calls(id, phase);
  std::vector<Event> events;
  if (n == 1) return events;
  const bool backward = phase == Phase::backward;
  const auto exchanges = backward ? ring_backward(n) : ring_forward(n);
  for (size_t i = 0; i < exchanges.size(); ++i) {
    Event event = ring_message(id, exchanges[i], phase);
    Cause why = ring_cause(id, exchanges[i], phase);
    why.planner = fmt::format("exchange {} of {} is send/recv", i + 1, exchanges.size());
    event.cause = cause(std::move(why));
    launch(std::move(event), exchanges[i], events);
  }
  return events;
}

Event Emitter::ring_message(OpId id, const RingExchange& exchange, Phase phase) {
  const Op& op = graph_.op(id);
  const OpPlan& plan = forward_.ops[id.at()];
  Event e;
  Count count = 0;
  for (const bool gradients : {false, true})
    for (const size_t i : passing_operands(op, plan)) {
      const Value& v = graph_.value(op.inputs[i]);
      if (gradients ? exchange.gradients : exchange.operands)
        e.members.push_back(gradients ? v.name + ".grad" : v.name);
      if (!gradients)
        count = checked_add(count,
                            elements(local_shape_of(graph_, op.inputs[i], plan.operand_ports[i])));
    }
  const TensorId first = op.inputs[passing_operands(op, plan).front()];
  e.ring = true;
  e.phase = phase;
  e.family = family(ring_atoms(plan), false);
  e.tensor = graph_.value(first).name;
  e.node = op.name;
  e.module = op.module;
  e.value = first.value;
  e.user = id.value;
  e.stage = op.stage;
  e.dtype = graph_.value(first).dtype;
  e.shape = {static_cast<int64_t>(count)};
  if (exchange.operands && exchange.gradients) e.shape.insert(e.shape.begin(), 2);
  return e;
}

Cause Emitter::ring_cause(OpId id, const RingExchange& exchange, Phase phase) {
  const Op& op = graph_.op(id);
  const OpPlan& plan = forward_.ops[id.at()];
  const AtomSet atoms = ring_atoms(plan);
  std::vector<std::string> names;
  for (const size_t i : passing_operands(op, plan))
    names.push_back(graph_.value(op.inputs[i]).name);
  const std::string what = join(names, " and ");
  const std::string around =
      fmt::format("{} reads all of {}, and each of the {} ranks of {} has a part: ", op.name, what,
                  graph_.mesh.size(atoms), graph_.mesh.family_of(atoms).name);
  Cause c;
  c.kind = phase == Phase::recompute ? CauseKind::recompute : CauseKind::ring;
  if (phase != Phase::backward)
    c.why = around + "the part that a rank read last goes on to the next rank, in one buffer";
  else if (!exchange.gradients)
    c.why = around + "for the backward the parts go round once more, the other way";
  else if (exchange.operands)
    c.why = around +
            "the part goes on to the rank before, and with it the gradient of the "
            "part that went there last, as added up so far";
  else
    c.why =
        fmt::format("the gradients of {} come home, to the rank whose part they belong to", what);
  if (phase == Phase::recompute)
    c.why = fmt::format("{} is computed again for the backward: {}", op.name, c.why);
  c.consumer = describe_mode(graph_, forward_, id, atoms);
  c.rule = op.notation->text;
  c.vote = describe_vote(graph_, forward_, id, atoms);
  c.from = c.to = text_(plan.operand_ports[passing_operands(op, plan).front()]);
  return c;
}

// In collectives of the whole group.
std::vector<Event> Emitter::ring_calls(OpId id, Phase phase) {
  const int64_t n = graph_.mesh.size(ring_atoms(forward_.ops[id.at()]));
  const RingKind kind = graph_.switches.ring;
  const bool backward = phase == Phase::backward;
  const auto calls = backward ? ring_calls_backward(kind, n) : ring_calls_forward(kind, n);
  std::vector<Event> events;
  for (size_t i = 0; i < calls.size(); ++i) {
    // Gradients go on in every step, and lie in messages of their own.
    const RingExchange what{1, !calls[i].gradients, calls[i].gradients};
    Event event = ring_message(id, what, phase);
    event.ring = false;
    event.op = calls[i].op;
    event.ranks = ranks_of_stage(static_cast<int>(*event.stage));
    if (what.gradients && event.dtype != DType::f64) event.dtype = DType::f32;
    Cause why = ring_cause(id, what, phase);
    if (what.gradients)
      why.why += "; they go on to the next rank after every part, as summed up so far in float32";
    else if (event.op == Collective::all_gather)
      why.why += "; here all parts come at once";
    why.planner = fmt::format("call {} of {} is {}", i + 1, calls.size(), info(event.op).name);
    event.cause = cause(std::move(why));
    event.volume = volume(event.op, elements(event.shape), size_of(event.dtype), n);
    if (event.op == Collective::all_to_all) go_on(event);
    events.push_back(std::move(event));
  }
  return events;
}

// An all-to-all in which every rank sends all that it has to the next one. The listing spells out
// who that is (program/listing.h).
void Emitter::go_on(Event& event) {
  event.call = calls_++;
  event.peer_offset = 1;
  event.volume.wire_bytes = event.volume.input_bytes;
}

// Ranks at even positions send first, the others receive first.
void Emitter::launch(Event event, const RingExchange& exchange, std::vector<Event>& out) {
  const Family& group = program_.families[event.family];
  const int64_t n = graph_.mesh.size(group.atoms);
  const bool together = launched_together(graph_.switches.ring_launch, n);
  for (const int64_t turn : {0, 1, 2}) {
    Event e = event;
    const bool send = turn != 1;
    e.op = send ? Collective::send : Collective::recv;
    e.peer_offset = send ? exchange.to : -exchange.to;
    e.ranks = ranks_of_stage(static_cast<int>(*e.stage));
    if (send) e.call = calls_;  // of all ranks, at their own turn
    if (send) e.ranks.along.push_back({group.name, group.atoms, every_second(turn / 2, n)});
    e.volume = volume(e.op, elements(e.shape), size_of(e.dtype), n);
    e.batch = together ? launches_ : launches_++;
    out.push_back(std::move(e));
  }
  launches_ += together;
  ++calls_;
}

}  // namespace s2t
