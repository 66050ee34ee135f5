#include "runtime/run/leaves.h"

#include <algorithm>
#include <cstring>

namespace s2t {
namespace {

// How the gradient of operand `operand` of `op` arrives: what the tape's tags will say.
Layout expected_tag(const Graph& graph, const Forward& forward, OpId id, size_t operand) {
  const Op& op = graph.op(id);
  const OpPlan& plan = forward.ops[id.at()];
  Layout arrived(graph.mesh);
  for (size_t a = 0; a < graph.atoms(); ++a) {
    const Placement port = plan.result_ports[0][AtomIndex(a)];
    arrived[AtomIndex(a)] = op.redistributes() && port.is_shard() ? port
                            : graph.per_rank[a]                   ? Placement::P()
                                                                  : Placement::R();
  }
  const Layout held = kernel_tag(graph, op, plan, operand, arrived);
  const int through = plan.conversions[operand];
  if (through < 0) return held;
  return home_of_parameter(graph, forward.conversions[static_cast<size_t>(through)], held);
}

Leaf make_leaf(const Graph& graph, TensorId p, int stage, const Layout& held) {
  const Value& v = graph.value(p);
  Leaf leaf;
  leaf.parameter = p;
  leaf.stage = stage;
  leaf.expert = v.expert;
  leaf.tied = family_of_tied(graph, p).has_value();
  leaf.held = leaf.after = held;
  leaf.dtype = graph.sync.dtype.value_or(v.dtype);
  leaf.stored = v.dtype;
  leaf.shape = local_shape(v.shape, v.layout, graph.mesh);
  leaf.fresh = leaf.total = Tensor(leaf.shape, leaf.dtype);
  const AtomSet allowed = synchronised_over(graph, p);
  for (size_t a = 0; a < graph.atoms(); ++a) {
    if (!held[AtomIndex(a)].is_partial()) continue;
    if (contains(allowed, AtomIndex(a)))
      leaf.data |= atom_bit(AtomIndex(a));
    else if (!graph.per_rank[a])
      leaf.model |= atom_bit(AtomIndex(a));
  }
  return leaf;
}

}  // namespace

std::vector<Leaf> leaves_of_stage(const Graph& graph, const Forward& forward, int stage,
                                  const std::vector<OpId>& running) {
  std::vector<Leaf> leaves;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    if (!value.parameter || !value.requires_grad) continue;
    const size_t first = leaves.size();
    OpId ready;
    for (const OpId id : running)
      for (size_t i = 0; i < graph.op(id).inputs.size(); ++i) {
        if (graph.op(id).inputs[i] != TensorId(v) || !carries_gradient(graph, graph.op(id), i))
          continue;
        ready = id;
        const Layout held = expected_tag(graph, forward, id, i);
        if (std::none_of(leaves.begin() + static_cast<long>(first), leaves.end(),
                         [&](const Leaf& l) { return l.held == held; }))
          leaves.push_back(make_leaf(graph, TensorId(v), stage, held));
      }
    for (size_t l = first; l < leaves.size(); ++l) leaves[l].ready = ready;
  }
  return leaves;
}

std::vector<Leaf> silent_leaves(const Graph& graph, const Forward& forward,
                                const std::vector<Leaf>& leaves,
                                const std::function<bool(TensorId)>& holds) {
  const std::vector<bool> reached = reached_from_loss(graph);
  const auto trains = [&](const Use& use) {
    const Op& op = graph.op(use.op);
    return carries_gradient(graph, op, use.operand) &&
           std::any_of(op.outputs.begin(), op.outputs.end(),
                       [&](TensorId out) { return reached[out.at()]; });
  };
  std::vector<Leaf> silent;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const TensorId p(v);
    const Value& value = graph.value(p);
    if (!value.parameter || !value.requires_grad || !holds(p) || !family_of_tied(graph, p))
      continue;
    const auto use = std::find_if(value.uses.begin(), value.uses.end(), trains);
    const bool sounds =
        std::any_of(leaves.begin(), leaves.end(), [&](const Leaf& l) { return l.parameter == p; });
    if (use == value.uses.end() || sounds) continue;
    Leaf leaf = make_leaf(graph, p, graph.op(use->op).stage,
                          expected_tag(graph, forward, use->op, use->operand));
    const AtomSet reduced = leaf.model | (graph.sync.kind == SyncKind::none ? 0 : leaf.data);
    for (size_t a = 0; a < graph.atoms(); ++a)
      if (contains(reduced, AtomIndex(a))) leaf.after[AtomIndex(a)] = Placement::R();
    leaf.data = leaf.model = 0;  // there is nothing to reduce here
    silent.push_back(std::move(leaf));
  }
  return silent;
}

int64_t mean_divisor_of_sync(const Graph& graph) {
  if (graph.sync.kind == SyncKind::none || !graph.sync.mean) return 1;
  AtomSet atoms = 0;
  for (const std::string& name : graph.sync.axes)
    if (const Axis* axis = graph.mesh.find(name)) atoms |= axis->atoms;
  return graph.mesh.size(graph.sync.axes.empty() ? graph.data_atoms : atoms & graph.data_atoms);
}

AtomSet copies(const Graph& graph) {
  AtomSet atoms = 0;
  for (const std::string& name : graph.sync.replicated)
    if (const Axis* axis = graph.mesh.find(name)) atoms |= axis->atoms;
  return atoms;
}

Tensor flattened(const std::vector<const Tensor*>& tensors) {
  int64_t n = 0;
  for (const Tensor* t : tensors) n += t->size();
  Tensor flat({n}, tensors[0]->dtype());
  std::byte* to = flat.writable_bytes();
  for (const Tensor* t : tensors) {
    if (t->byte_size()) std::memcpy(to, t->bytes(), t->byte_size());
    to += t->byte_size();
  }
  return flat;
}

void unflatten(const Tensor& flat, const std::vector<Tensor*>& tensors) {
  const std::byte* from = flat.bytes();
  for (Tensor* t : tensors) {
    if (t->byte_size()) std::memcpy(t->writable_bytes(), from, t->byte_size());
    from += t->byte_size();
  }
}

}  // namespace s2t
