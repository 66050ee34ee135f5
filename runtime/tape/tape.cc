#include "runtime/tape/tape.h"

#include <algorithm>
#include <limits>

#include "analyzer/graph/passes.h"

namespace s2t {
namespace {

// In place of numbers that nobody may read.
Tensor poisoned(const Tensor& like) {
  Tensor t(like.shape(), like.dtype());
  t.write<double>(
      std::vector<double>(static_cast<size_t>(t.size()), std::numeric_limits<double>::quiet_NaN()));
  return t;
}

bool is_gather(const Step& s) {
  return s.collective == Collective::all_gather;
}

}  // namespace

// --- forward -------------------------------------------------------------------------------------

Tape::Variable& Tape::variable(TensorId t) {
  const auto it = variables_.find(t);
  if (it != variables_.end()) return it->second;
  const Value& v = graph_.value(t);
  if (!v.leaf()) throw Fault("tape: " + v.name + " is read before it was made");
  return variables_.emplace(t, Variable{around_.leaf(t), v.requires_grad, -1, -1}).first->second;
}

void Tape::receive(OpId transfer, Tensor data) {
  if (around_.before_forward) around_.before_forward(transfer);
  const TensorId value = graph_.op(transfer).outputs[0];
  const bool grad = is_differentiable(graph_.value(value).dtype);
  variables_[value] = {std::move(data), grad, static_cast<int>(nodes_.size()), -1};
  nodes_.push_back({transfer, std::nullopt, {}, false});
}

void Tape::run(OpId id) {
  const Op& op = graph_.op(id);
  const OpPlan& plan = forward_.ops[id.at()];
  if (around_.before_forward) around_.before_forward(id);
  Node node{id, around_.op(id), {}, false};
  std::vector<Tensor> inputs;
  bool grad = false;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const int through = plan.conversions[i];
    inputs.push_back(through < 0 ? variable(op.inputs[i]).data : converted(op.inputs[i], through));
    const bool again = stored_.count(through) != 0 || read_again(op.inputs[i], through);
    node.operands.push_back({op.inputs[i], through, again ? poisoned(inputs[i]) : inputs[i]});
    grad |= variable(op.inputs[i]).requires_grad && carries_gradient(graph_, op, i);
  }
  const std::vector<Tensor> outputs = node.local->forward(inputs);
  for (size_t r = 0; r < outputs.size(); ++r) {
    const DType dtype = graph_.value(op.outputs[r]).dtype;
    variables_[op.outputs[r]] = {outputs[r].cast(dtype), grad && is_differentiable(dtype),
                                 static_cast<int>(nodes_.size()), -1};
  }
  nodes_.push_back(std::move(node));
}

void Tape::run_again(OpId id) {
  for (Node& node : nodes_) {
    if (node.op != id || !node.local || !node.local->passes_by()) continue;
    std::vector<Tensor> inputs;
    for (const Operand& operand : node.operands) inputs.push_back(operand.used);
    node.local->forward(inputs);
  }
}

// A weight is no copy: the backward reads what is there then.
bool Tape::read_again(TensorId t, int through) const {
  return graph_.value(t).parameter && through < 0;
}

Tensor Tape::outgoing(OpId transfer) {
  const TensorId value = graph_.op(transfer).inputs[0];
  const int through = forward_.ops[transfer.at()].conversions[0];
  return through < 0 ? variable(value).data : converted(value, through);
}

Tensor Tape::converted(TensorId value, int conversion) {
  const auto it = shared_.find(conversion);
  if (it != shared_.end()) return it->second;
  const Conversion& c = forward_.conversions[static_cast<size_t>(conversion)];
  const Value& v = graph_.value(value);
  const bool stored = v.residual == Residual::stored && !v.parameter;
  Tensor data = variable(value).data;
  data = stored ? keep_for_later(conversion, std::move(data), c.steps)
                : around_.convert(value, std::move(data), c.steps, false);
  return shared_.emplace(conversion, std::move(data)).first->second;
}

Tensor Tape::keep_for_later(int conversion, Tensor data, std::span<const Step> steps) {
  const TensorId value = forward_.conversions[static_cast<size_t>(conversion)].value;
  for (const Step& s : steps) {
    if (is_gather(s)) stored_.emplace(conversion, Stored{data, {}});
    if (const auto at = stored_.find(conversion); at != stored_.end())
      at->second.steps.push_back(s);
    data = around_.convert(value, std::move(data), {&s, 1}, false);
  }
  return data;
}

// --- which nodes run -----------------------------------------------------------------------------

Tape::Root Tape::loss_root() const {
  const Variable& loss = variables_.at(graph_.loss);
  Tensor one(loss.data.shape(), loss.data.dtype());
  one.write<double>(std::vector<double>(static_cast<size_t>(one.size()), 1));
  const Layout& produced = forward_.layouts[graph_.loss.at()];
  return {graph_.loss, -1, {std::move(one), home_of(graph_, produced, Layout(graph_.mesh))}};
}

Tape::Root Tape::sent_root(OpId transfer, Tensor gradient) const {
  const OpPlan& plan = forward_.ops[transfer.at()];
  const Layout& port = plan.result_ports[0];
  return {graph_.op(transfer).inputs[0],
          plan.conversions[0],
          {std::move(gradient), home_of(graph_, port, port)}};
}

bool Tape::wants(const Node& node, size_t operand) const {
  const Op& op = graph_.op(node.op);
  return carries_gradient(graph_, op, operand) && variables_.at(op.inputs[operand]).requires_grad;
}

std::vector<OpId> Tape::plan_backward(const std::vector<Root>& roots) {
  std::set<TensorId> reached;
  for (const Root& r : roots)
    if (variables_.at(r.value).requires_grad) reached.insert(r.value);
  std::vector<OpId> order;
  for (size_t n = nodes_.size(); n-- > 0;) {
    Node& node = nodes_[n];
    const Op& op = graph_.op(node.op);
    node.runs = std::any_of(op.outputs.begin(), op.outputs.end(), [&](TensorId t) {
      return reached.count(t) && variables_.at(t).requires_grad;
    });
    if (!node.runs) continue;
    order.push_back(node.op);
    if (!node.local) continue;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!wants(node, i)) continue;
      reached.insert(op.inputs[i]);
      variables_.at(op.inputs[i]).last_use = static_cast<int>(n);
      last_through_[node.operands[i].through] = static_cast<int>(n);
    }
  }
  return order;
}

// --- backward ------------------------------------------------------------------------------------

void Tape::backward(std::vector<Root> roots) {
  plan_backward(roots);
  for (Root& r : roots)
    if (variables_.at(r.value).requires_grad) add(r.value, std::move(r.gradient), r.through);
  for (size_t n = nodes_.size(); n-- > 0;) {
    if (nodes_[n].runs) run_backward(n);
  }
}

// Contributions that came the same way and are held alike add up before anything is sent.
void Tape::add(TensorId value, Gradient gradient, int through) {
  std::vector<Pending>& list = pending_[value];
  for (Pending& p : list)
    if (graph_.switches.accumulate_first && p.through == through &&
        p.gradient.held == gradient.held) {
      p.gradient.data = s2t::add(p.gradient.data, gradient.data);
      return;
    }
  list.push_back({std::move(gradient), through});
}

Gradient Tape::bring_home(TensorId value, const Pending& pending, const Layout& home) {
  const auto steps = plan_conversion(graph_, value, pending.gradient.held, home);
  return {around_.convert(value, pending.gradient.data, steps, true), home};
}

// One gradient, held as the producer takes it. A pin hands a replica's gradient through as it is.
Gradient Tape::settle(TensorId value, std::vector<Pending> pending, const Op* producer) {
  const Layout& produced = forward_.layouts[value.at()];
  std::optional<Gradient> total;
  for (const Pending& p : pending) {
    Layout home = home_of(graph_, produced, p.gradient.held);
    for (size_t i = 0; producer && passes_gradient(*producer) && i < graph_.atoms(); ++i) {
      const AtomIndex a(i);
      const Placement held = p.gradient.held[a];
      const bool agree = std::all_of(pending.begin(), pending.end(), [&](const Pending& other) {
        return other.gradient.held[a] == held;
      });
      if (produced[a].is_replicate() && agree && !held.is_shard()) home[a] = held;
      if (adds_gradients(*producer) && producer->target[i] && produced[a].is_replicate())
        home[a] = Placement::P();
    }
    Gradient g = bring_home(value, p, home);
    if (total)
      total->data = s2t::add(total->data, g.data);
    else
      total = std::move(g);
  }
  return *total;
}

void Tape::run_backward(size_t n) {
  Node& node = nodes_[n];
  const Op& op = graph_.op(node.op);
  if (around_.before_backward) around_.before_backward(node.op);
  std::vector<std::optional<Tensor>> arrived(op.outputs.size());
  Layout held(graph_.mesh);
  for (size_t r = 0; r < op.outputs.size(); ++r) {
    const auto it = pending_.find(op.outputs[r]);
    if (it == pending_.end()) continue;
    Gradient g = settle(op.outputs[r], std::move(it->second), &op);
    pending_.erase(it);
    held = g.held;
    if (!node.local) leaf_gradients_[op.outputs[r]] = g;  // to be sent back
    arrived[r] = std::move(g.data);
  }
  if (node.local) run_kernel(node, arrived, held);
  convert_parameters(node, static_cast<int>(n));
  const std::vector<TensorId> finished = finished_leaves(node, static_cast<int>(n));
  for (const TensorId t : finished)
    if (graph_.value(t).parameter) finish_parameter(t);
  if (around_.after_backward) around_.after_backward(node.op);
  for (const TensorId t : finished)
    if (!graph_.value(t).parameter) {
      leaf_gradients_[t] = settle(t, std::move(pending_[t]), nullptr);
      pending_.erase(t);
    }
}

void Tape::run_kernel(Node& node, std::span<const std::optional<Tensor>> arrived,
                      const Layout& held) {
  const Op& op = graph_.op(node.op);
  gather_again(node);
  const bool fused = graph_.switches.fused_column_linear && op.is("linear");
  std::vector<Tensor> inputs, outputs;
  std::vector<bool> wanted;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const Operand& operand = node.operands[i];
    const bool again = read_again(operand.value, operand.through);
    inputs.push_back(again ? around_.leaf(operand.value) : operand.used);
    wanted.push_back(wants(node, i) || (fused && i == 0 && wants(node, 1)));
  }
  for (const TensorId t : op.outputs) outputs.push_back(variables_.at(t).data);
  contribute(node, node.local->backward(inputs, outputs, arrived, wanted), held);
}

// Values that were not kept whole are gathered again, once, before the first kernel that reads
// them.
void Tape::gather_again(Node& node) {
  const Op& op = graph_.op(node.op);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!wants(node, i)) continue;
    for (const size_t read : saved_for(*op.def, *op.notation, i)) {
      Operand& operand = node.operands[read];
      const auto it = stored_.find(operand.through);
      if (it == stored_.end()) continue;
      if (gathered_again_.insert(operand.through).second)
        it->second.before =
            around_.convert(operand.value, it->second.before, it->second.steps, true);
      operand.used = it->second.before;
    }
  }
}

void Tape::contribute(const Node& node, std::vector<std::optional<Tensor>> made,
                      const Layout& arrived) {
  const Op& op = graph_.op(node.op);
  const OpPlan& plan = forward_.ops[node.op.at()];
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i]) continue;
    Gradient g{std::move(*made[i]), kernel_tag(graph_, op, plan, i, arrived)};
    if (wants(node, i)) {
      add(op.inputs[i], std::move(g), node.operands[i].through);
    } else {  // a fused linear reduces its input's gradient, needed or not
      settle(op.inputs[i], {{std::move(g), node.operands[i].through}}, nullptr);
    }
  }
}

// Leaves to whose gradients this node was the last to contribute; parameters in their order.
std::vector<TensorId> Tape::finished_leaves(const Node& node, int n) const {
  std::set<TensorId> leaves;
  for (const Operand& operand : node.operands) {
    const Variable& v = variables_.at(operand.value);
    if (v.node < 0 && v.last_use == n && pending_.count(operand.value))
      leaves.insert(operand.value);
  }
  return {leaves.begin(), leaves.end()};
}

// A conversion of a parameter is a node of its own: its backward runs when the last op that read the
// converted parameter has contributed, whoever else reads the parameter.
void Tape::convert_parameters(const Node& node, int n) {
  for (const Operand& operand : node.operands) {
    const int through = operand.through;
    if (through < 0 || !graph_.value(operand.value).parameter || last_through_[through] != n)
      continue;
    const Conversion& c = forward_.conversions[static_cast<size_t>(through)];
    for (Pending& p : pending_[operand.value]) {
      if (p.through != through) continue;
      p.gradient = bring_home(operand.value, p, home_of_parameter(graph_, c, p.gradient.held));
      p.through = -1;
    }
  }
}

void Tape::finish_parameter(TensorId t) {
  std::vector<Gradient> arrived;
  for (Pending& p : pending_[t]) arrived.push_back(std::move(p.gradient));
  pending_.erase(t);
  if (around_.parameter_ready) around_.parameter_ready(t, std::move(arrived));
}

}  // namespace s2t
