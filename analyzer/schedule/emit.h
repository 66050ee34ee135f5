// Turns a planned redistribution or synchronisation into events with groups, shapes and bytes.
// Only assemble.cc reads this.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyzer/backward/gradient_sync.h"
#include "analyzer/program/program.h"

namespace s2t {

// Collects families and causes of a program while events are made.
class Emitter {
 public:
  Emitter(const Graph& graph, const Forward& forward, Program& program);

  struct Context {
    Phase phase = Phase::forward;
    CauseKind kind = CauseKind::forward_conversion;
    int stage = 0;
    OpId producer, consumer;  // of the edge; either may be invalid
    std::string why;
  };

  // Events of the communicating steps of one conversion of `value`.
  std::vector<Event> conversion(TensorId value, const std::vector<Step>& steps,
                                const Context& context);
  std::vector<Event> synchronisation(const SyncCall& call);
  // What an op whose operands pass by in a ring sends in a phase, if it is one.
  std::vector<Event> ring(OpId op, Phase phase);
  Event stated(const StatedCall& call);
  // One message of a stage border: `op` is send or recv as `stage` issues it.
  Event message(const Op& transfer, TensorId value, Collective op, int stage, bool backward);
  // What is sent ahead of it, where the pipeline has headers.
  Event header_of(Event message);

  RankSet ranks_of_stage(int stage) const;

  // The axis families every rank creates, whatever is used.
  void register_axes();

 private:
  size_t family(const Family& family);
  size_t family(AtomSet atoms, bool prefer_expert);
  std::string tied_name(const Family& f) const;
  size_t cause(Cause cause);
  std::vector<Event> step_events(TensorId value, const Step& step, const Context& context);
  void ragged(TensorId value, const Step& step, const Event& base, std::vector<Event>& out);
  const std::vector<int64_t>& alike(const Routing& routing);
  Shape sent_shape(TensorId value, const Step& step) const;
  void equal_splits(const Step& step, int64_t n, Event& event) const;
  Event base_event(TensorId value, const Step& step, const Context& context);
  Event ring_message(OpId op, const RingExchange& exchange, Phase phase);
  Cause ring_cause(OpId op, const RingExchange& exchange, Phase phase);
  void launch(Event event, const RingExchange& exchange, std::vector<Event>& out);
  std::vector<Event> ring_calls(OpId op, Phase phase);
  void go_on(Event& event);

  const Graph& graph_;
  const Forward& forward_;
  Program& program_;
  std::map<std::string, size_t> family_index_;
  std::map<std::pair<AtomSet, bool>, size_t> family_of_atoms_;
  LayoutTexts text_;
  std::map<const Routing*, std::vector<int64_t>> alike_;
  int64_t calls_ = 0;
  int64_t launches_ = 0;
};

}  // namespace s2t
