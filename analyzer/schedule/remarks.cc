#include "analyzer/schedule/remarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

// Under per_rank every rank's loss counts: a loss computed redundantly is counted n times.
void remark_loss(const Graph& graph, const Forward& forward, std::vector<Remark>& remarks) {
  if (!graph.loss.valid() || graph.value(graph.loss).leaf()) return;
  const OpPlan& plan = forward.ops[graph.value(graph.loss).producer.at()];
  AtomSet atoms = 0;
  for (size_t i = 0; i < graph.atoms(); ++i) {
    const Atom& atom = graph.mesh.atoms()[i];
    if (atom.kind == AxisKind::model && graph.per_rank[i] && atom.size > 1 &&
        plan.modes[i].kind == Mode::Kind::redundant)
      atoms |= atom_bit(AtomIndex(i));
  }
  if (!atoms) return;
  remarks.push_back(
      {"loss-replicated",
       fmt::format("every rank of {} computes the same loss and per_rank sums them: gradients are "
                   "{} times those of the unsharded model",
                   graph.mesh.family_of(atoms).name, graph.mesh.size(atoms))});
}

std::map<std::string_view, TensorId> weights_of_linears(const Graph& graph) {
  std::map<std::string_view, TensorId> weights;
  for (const Op& op : graph.ops)
    if (op.is("linear") && graph.value(op.inputs[1]).parameter)
      weights.emplace(op.name, op.inputs[1]);
  return weights;
}

// The bytes of a tensor-parallel reduction follow the activation, not the weight.
void remark_payload(const Graph& graph, const Program& program, std::vector<Remark>& remarks) {
  const auto weights = weights_of_linears(graph);
  std::map<size_t, std::pair<std::string, std::set<std::string>>> told;  // family: text, tensors
  for (const Stage& s : program.stages)
    for (const Segment::Item& item : s.forward.items) {
      const Event& e = item.event;
      const Cause& c = program.causes[e.cause];
      if (c.kind != CauseKind::forward_conversion || e.op != Collective::all_reduce) continue;
      const auto weight = weights.find(e.node);
      if (weight == weights.end()) continue;
      const Value& w = graph.value(weight->second);
      const Count bytes = elements(local_shape(w.shape, w.layout, graph.mesh)) * size_of(w.dtype);
      if (bytes == e.volume.input_bytes) continue;
      auto& [text, tensors] = told[e.family];
      tensors.insert(e.tensor);
      if (text.empty())
        text = fmt::format(
            "the all_reduce of {} on {} carries the activation, {} B; the {} B of {} do not enter "
            "it",
            e.tensor, program.families[e.family].name, commas(e.volume.input_bytes), commas(bytes),
            w.name);
    }
  for (const auto& [family, remark] : told)
    remarks.push_back({"activation-not-parameter-bytes",
                       remark.first + and_more("; so with", remark.second.size())});
}

}  // namespace

std::vector<Remark> remarks_of(const Graph& graph, const Forward& forward, const Backward& backward,
                               const Sync& sync, const Program& program) {
  std::vector<Remark> remarks;
  for (const auto* list : {&forward.remarks, &backward.remarks, &sync.remarks})
    for (const Remark& r : *list)
      if (std::find(remarks.begin(), remarks.end(), r) == remarks.end()) remarks.push_back(r);
  remark_loss(graph, forward, remarks);
  remark_payload(graph, program, remarks);
  return remarks;
}

}  // namespace s2t
