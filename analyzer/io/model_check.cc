#include "analyzer/io/model_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>

#include "analyzer/base/text.h"
#include "analyzer/io/model_sections.h"

namespace s2t {
namespace {

constexpr int64_t kMostSlots = int64_t{1} << 20;  // stages times microbatches in a schedule
constexpr size_t kMostKnown = 10000;              // names that an unknown one is compared with
constexpr size_t kMostSteps = 2'000'000;          // of all searches for cycles together

std::string op_words(const Model& model, size_t op) {
  return fmt::format("op {} ({})", op, quoted(model.ops[op].name));
}

// Who makes which tensor: an op, or the model itself for a leaf.
class Dataflow {
 public:
  Dataflow(const Model& model, Diagnostics& sink) : model_(model), sink_(sink) {
    for (size_t i = 0; i < model.ops.size(); ++i) add_outputs(i);
    for (const TensorDecl& t : model.tensors)
      if (!producer_.count(t.name)) leaves_.push_back(t.name);
    leaf_set_.insert(leaves_.begin(), leaves_.end());
    complete_ = complete_ && leaf_set_.size() == leaves_.size() && !leaves_.empty();
  }

  void check() {
    for (size_t i = 0; i < model_.ops.size(); ++i)
      for (size_t k = 0; k < model_.ops[i].inputs.size(); ++k) check_input(i, k);
    check_names();
  }

  bool is_leaf(const std::string& name) const { return leaf_set_.count(name) > 0; }
  bool is_result(const std::string& name) const { return producer_.count(name) > 0; }
  // Whether an unknown name is a mistake of its own: not where names are missing by another.
  bool tells_unknown() const { return complete_ || !sink_.any(); }

  // Results of the ops before `op`, the nearest first, as far as a guess looks.
  std::vector<std::string> results_before(size_t op) const {
    std::vector<std::string> names;
    while (op-- > 0 && names.size() < kMostKnown)
      for (const std::string& out : model_.ops[op].outputs)
        if (!out.empty()) names.push_back(out);
    return names;
  }

 private:
  void add_outputs(size_t op) {
    if (model_.ops[op].outputs.empty()) complete_ = false;
    for (const std::string& name : model_.ops[op].outputs) {
      const auto [it, is_new] = producer_.emplace(name, op);
      complete_ = complete_ && is_new && !name.empty();
      if (!is_new && !name.empty())
        sink_.add({model_.ops[op].pointer,
                   fmt::format("{} is already the output of {}", quoted(name),
                               op_words(model_, it->second)),
                   "a new name", "", "duplicate-name"});
    }
  }

  void check_names() {
    std::map<std::string, size_t> seen;
    for (size_t i = 0; i < model_.ops.size(); ++i) {
      const auto [it, is_new] = seen.emplace(model_.ops[i].name, i);
      if (!is_new && !model_.ops[i].name.empty())
        sink_.add({model_.ops[i].pointer,
                   fmt::format("op name {} is already that of op {}", quoted(model_.ops[i].name),
                               it->second),
                   "a new name", "", "duplicate-name"});
    }
  }

  void check_input(size_t op, size_t k) {
    const std::string& name = model_.ops[op].inputs[k];
    const std::string at = fmt::format("{}/inputs/{}", model_.ops[op].pointer, k);
    if (name.empty() || sink_.full()) return;
    const auto made = producer_.find(name);
    if (made == producer_.end()) {
      if (!is_leaf(name) && tells_unknown()) unknown_input(op, name, at);
    } else if (made->second >= op) {
      not_yet_there(op, made->second, name, at);
    } else if (model_.ops[made->second].stage > model_.ops[op].stage) {
      sink_.add({at,
                 fmt::format("{} comes from {} on stage {}, and this op is on stage {}",
                             quoted(name), op_words(model_, made->second),
                             model_.ops[made->second].stage, model_.ops[op].stage),
                 "a stage that is not before its inputs'", "", "stage-backwards"});
    }
  }

  void unknown_input(size_t op, const std::string& name, const std::string& at) {
    std::vector<std::string> known = results_before(op);
    const size_t leaves = std::min(leaves_.size(), kMostKnown);
    known.insert(known.end(), leaves_.begin(), leaves_.begin() + static_cast<ptrdiff_t>(leaves));
    sink_.add({at, fmt::format("no tensor named {}", quoted(name)),
               known.empty() ? "a tensor of \"tensors\""
                             : fmt::format("one known before op {} ({})", op, quoted_list(known)),
               did_you_mean(name, known), "unknown-tensor"});
  }

  void not_yet_there(size_t op, size_t producer, const std::string& name, const std::string& at) {
    const std::vector<std::string> cycle = path(op, producer, name);
    if (!cycle.empty())
      return sink_.add({at,
                        fmt::format("{} needs itself: {} -> {}", quoted(name), name, chain(cycle)),
                        "ops without a cycle",
                        "If an input is meant, give the op's output another name.", "cycle"});
    const bool sure = steps_ < kMostSteps;
    sink_.add(
        {at, fmt::format("{} is made only later, by {}", quoted(name), op_words(model_, producer)),
         fmt::format("a tensor made before op {}", op),
         sure ? fmt::format("Move op {} before op {}.", producer, op) : "", "op-order"});
  }

  static std::string chain(std::vector<std::string> names) {
    if (names.size() > 8) {
      names.erase(names.begin() + 6, names.end() - 1);
      names.insert(names.end() - 1, "...");
    }
    return join(names, " -> ");
  }

  // The tensors on the way from op `from` to `last`, a result of op `to`; empty if there is none.
  std::vector<std::string> path(size_t from, size_t to, const std::string& last) const {
    std::map<size_t, std::pair<size_t, std::string>> came;  // op -> (op before it, tensor between)
    std::deque<size_t> open{from};
    came[from] = {from, ""};
    while (!open.empty() && (to == from || !came.count(to)) && steps_++ < kMostSteps) {
      const size_t op = open.front();
      open.pop_front();
      if (op == to) break;
      for (const auto& [user, tensor] : users(op))
        if (came.emplace(user, std::pair{op, tensor}).second) open.push_back(user);
    }
    if (!came.count(to)) return {};
    std::vector<std::string> names{last};
    for (size_t op = to; op != from; op = came[op].first) names.push_back(came[op].second);
    std::reverse(names.begin(), names.end());
    return names;
  }

  std::vector<std::pair<size_t, std::string>> users(size_t op) const {
    std::vector<std::pair<size_t, std::string>> all;
    for (const std::string& out : model_.ops[op].outputs)
      if (const auto it = consumers().find(out); it != consumers().end())
        for (const size_t user : it->second) all.emplace_back(user, out);
    return all;
  }

  const std::map<std::string, std::vector<size_t>>& consumers() const {
    if (consumers_.empty())
      for (size_t i = 0; i < model_.ops.size(); ++i)
        for (const std::string& in : model_.ops[i].inputs) consumers_[in].push_back(i);
    return consumers_;
  }

  const Model& model_;
  Diagnostics& sink_;
  std::map<std::string, size_t> producer_;
  std::vector<std::string> leaves_;
  std::set<std::string> leaf_set_;
  bool complete_ = true;  // every op and tensor has names, and each only once
  mutable size_t steps_ = 0;
  mutable std::map<std::string, std::vector<size_t>> consumers_;  // filled when first asked for
};

// A name of an op's result, as pins and the loss want it.
void check_result(const Dataflow& flow, const std::string& name, const std::string& at,
                  std::string_view leaf_advice, const Model& model, Diagnostics& sink) {
  if (flow.is_result(name) || sink.full()) return;
  if (flow.is_leaf(name))
    return sink.add({at, fmt::format("{} is no op's output", quoted(name)), "the output of an op",
                     std::string(leaf_advice), "not-a-result"});
  if (!flow.tells_unknown()) return;
  const std::vector<std::string> known = flow.results_before(model.ops.size());
  sink.add({at, fmt::format("no tensor named {}", quoted(name)),
            known.empty() ? "the output of an op"
                          : fmt::format("the output of an op ({})", quoted_list(known)),
            did_you_mean(name, known), "unknown-tensor"});
}

void check_pins(const Model& model, const Dataflow& flow, Diagnostics& sink) {
  std::set<std::string> placed;
  for (const TensorDecl& t : model.tensors)
    if (t.layout && flow.is_result(t.name)) placed.insert(t.name);
  for (const PinDecl& pin : model.pins) {
    check_result(flow, pin.tensor, pin.pointer, "State a leaf's layout in \"tensors\".", model,
                 sink);
    if (placed.count(pin.tensor))
      sink.add({pin.pointer, fmt::format("a second layout of {}", quoted(pin.tensor)),
                "one: here or in \"tensors\"", "", "duplicate-pin"});
  }
}

void check_units(const Model& model, Diagnostics& sink) {
  std::vector<std::string> parameters;
  for (const TensorDecl& t : model.tensors)
    if (t.parameter) parameters.push_back(t.name);
  const std::set<std::string> known(parameters.begin(), parameters.end());
  std::set<std::string> seen;
  for (size_t u = 0; u < model.gradient_sync.units.size(); ++u)
    for (const std::string& name : model.gradient_sync.units[u].parameters) {
      const std::string at = fmt::format("{}/units/{}", model.gradient_sync.pointer, u);
      if (!known.count(name) && !sink.full())
        sink.add({at, fmt::format("no parameter named {}", quoted(name)),
                  parameters.empty() ? "a parameter" : "one of " + quoted_list(parameters),
                  did_you_mean(name, parameters), "unknown-tensor"});
      if (!seen.insert(name).second)
        sink.add({at, fmt::format("{} stands in two units", quoted(name)), "it in one", "",
                  "duplicate-name"});
    }
}

// A parameter is stored whole or in parts; terms of it that nobody has added up are no weights.
void check_parameters(const Model& model, Diagnostics& sink) {
  for (const TensorDecl& t : model.tensors) {
    if (!t.parameter || !t.layout) continue;
    for (const LayoutDecl::Entry& e : t.layout->entries)
      if (e.placement[0] == 'P')
        sink.add({e.pointer, fmt::format("parameter {} stored as {}", quoted(t.name), e.placement),
                  "\"R\" or \"S(dim)\"", "Partial is what an op leaves to be reduced.",
                  "partial-parameter"});
  }
}

void check_routing_names(const Model& model, Diagnostics& sink) {
  std::vector<std::string> known;
  for (const RoutingDecl& r : model.routing) known.push_back(r.name);
  for (const OpDecl& op : model.ops) {
    const auto it = op.attributes.find("routing");
    const auto* name =
        it == op.attributes.end() ? nullptr : std::get_if<std::string>(&it->second.value);
    if (!name || sink.full() || std::count(known.begin(), known.end(), *name) > 0) continue;
    sink.add({it->second.pointer, fmt::format("no routing named {}", quoted(*name)),
              known.empty() ? "a \"routing\" section that has it" : "one of " + quoted_list(known),
              did_you_mean(*name, known), "unknown-routing"});
  }
}

int64_t axis_size(const Model& model, const std::string& name) {
  for (const auto* axes : {&model.mesh.axes, &model.mesh.expert_axes})
    for (const AxisDecl& axis : *axes) {
      if (axis.name == name) return axis.size;
      for (const AxisDecl& part : axis.parts)
        if (part.name == name) return part.size;
    }
  return 1;
}

bool uses_batch(const Model& model) {
  for (const TensorDecl& t : model.tensors)
    for (const DimDecl& dim : t.shape)
      if (dim.batch) return true;
  return false;
}

void check_batch(const Model& model, Diagnostics& sink) {
  if (!model.batch) {
    if (uses_batch(model))
      sink.add({"", "a shape says \"batch\", but nothing says how large it is",
                "\"batch\": {\"local\": ...} or \"batch\": {\"global\": ...}", "", "missing-key"});
    if (model.microbatches > 1)
      sink.add({model.microbatches_pointer,
                fmt::format("{} microbatches of no batch", model.microbatches),
                "\"batch\" beside it", "", "missing-key"});
    return;
  }
  int64_t ranks = 1;
  for (const std::string& axis : model.batch->axes)
    ranks = std::min(ranks * axis_size(model, axis), kMostRanks + 1);
  const int64_t global = model.batch->global.value_or(ranks);
  if (global % ranks != 0)
    return sink.add({model.batch->pointer + "/global",
                     fmt::format("{} samples over {} ranks ({})", global, ranks,
                                 join(model.batch->axes, " x ")),
                     "a multiple of the ranks", "", "indivisible"});
  const int64_t local = model.batch->local.value_or(global / ranks);
  if (local % model.microbatches != 0)
    sink.add({model.microbatches_pointer,
              fmt::format("{} microbatches of {} samples per rank", model.microbatches, local),
              "a number that divides the samples", "", "indivisible"});
}

int64_t stage_count(const Model& model) {
  const bool piped = model.pipeline && !model.pipeline->axis.empty();
  return piped ? axis_size(model, model.pipeline->axis) * model.pipeline->chunks : 1;
}

void check_stages(const Model& model, Diagnostics& sink) {
  const int64_t stages = stage_count(model);
  if (stages > kMostSlots / model.microbatches)
    sink.add({model.microbatches_pointer,
              fmt::format("{} microbatches on {} stages", model.microbatches, stages),
              fmt::format("at most {} of both multiplied", commas(kMostSlots)), "",
              "out-of-range"});
  for (const OpDecl& op : model.ops)
    if (op.stage >= stages)
      sink.add({op.pointer + "/stage", fmt::format("stage {}", op.stage),
                model.pipeline ? fmt::format("a stage from 0 to {}", stages - 1)
                               : "stage 0, for there is no pipeline axis",
                "", "no-such-stage"});
}

// Only in a model that is right otherwise: a wrong stage leaves its own stage empty.
void check_empty_stages(const Model& model, Diagnostics& sink) {
  if (sink.any() || model.ops.empty()) return;
  std::set<int64_t> used;
  for (const OpDecl& op : model.ops) used.insert(op.stage);
  std::vector<std::string> empty;
  const int64_t stages = stage_count(model);
  for (int64_t stage = 0; stage < stages && empty.size() < 8; ++stage)
    if (!used.count(stage)) empty.push_back(std::to_string(stage));
  if (!empty.empty())
    sink.add({"/ops", fmt::format("no op on stage {}", join(empty, ", ")),
              fmt::format("at least one on each of the {} stages",
                          commas(static_cast<uint64_t>(stages))),
              "Give the ops a \"stage\".", "empty-stage"});
}

}  // namespace

void check_references(const Model& model, Diagnostics& sink) {
  Dataflow flow(model, sink);
  flow.check();
  check_pins(model, flow, sink);
  if (!model.loss.empty()) check_result(flow, model.loss, "/loss", "", model, sink);
  check_units(model, sink);
  check_parameters(model, sink);
  check_routing_names(model, sink);
  check_batch(model, sink);
  check_stages(model, sink);
  check_empty_stages(model, sink);
}

}  // namespace s2t
