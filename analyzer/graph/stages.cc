#include "analyzer/graph/stages.h"

#include <algorithm>

namespace s2t {
namespace {

class StageCutter {
 public:
  explicit StageCutter(Graph& graph) : graph_(graph), originals_(graph.values.size()) {}

  void cut() {
    std::vector<Op> ops = std::move(graph_.ops);
    graph_.ops.clear();
    note_homes(ops);
    for (Value& v : graph_.values) v.uses.clear();
    for (int stage = 0; stage < graph_.stages; ++stage) {
      for (size_t v = 0; v < originals_; ++v)
        if (home_[v] >= 0 && home_[v] < stage && last_use_[v] >= stage)
          here_[v] = transfer(here_[v], stage);
      for (Op& op : ops)
        if (op.stage == stage) replay(std::move(op));
    }
  }

 private:
  void note_homes(const std::vector<Op>& ops) {
    home_.assign(originals_, -1);
    last_use_.assign(originals_, -1);
    for (size_t v = 0; v < originals_; ++v) here_.emplace_back(v);
    for (const Op& op : ops) {
      for (const TensorId t : op.inputs) last_use_[t.at()] = std::max(last_use_[t.at()], op.stage);
      for (const TensorId t : op.outputs) home_[t.at()] = op.stage;
    }
  }

  TensorId transfer(TensorId from, int stage) {
    Op op;
    op.def = find_op("transfer");
    std::string error;
    op.notation = *rule_of(*op.def, "", 1, error);
    op.rule = *bind_op(*op.def, *op.notation, {graph_.value(from).shape}, 1, {}, error);
    op.name = graph_.value(from).name;
    op.stage = stage;
    op.inputs = {from};
    op.pointer = graph_.value(from).pointer;
    Value received = graph_.value(from);
    received.uses.clear();
    received.result = 0;
    received.requires_grad = is_differentiable(received.dtype);
    graph_.values.push_back(std::move(received));
    op.outputs = {TensorId(graph_.values.size() - 1)};
    replay_as(std::move(op));
    return TensorId(graph_.values.size() - 1);
  }

  void replay(Op op) {
    for (TensorId& input : op.inputs) input = here_[input.at()];
    replay_as(std::move(op));
  }

  void replay_as(Op op) {
    const OpId id(graph_.ops.size());
    for (size_t i = 0; i < op.inputs.size(); ++i)
      graph_.values[op.inputs[i].at()].uses.push_back({id, i});
    for (const TensorId t : op.outputs) graph_.values[t.at()].producer = id;
    graph_.ops.push_back(std::move(op));
  }

  Graph& graph_;
  size_t originals_;
  std::vector<int> home_, last_use_;  // stage of the producer (-1: leaf) and of the last reader
  std::vector<TensorId> here_;        // what a value is called in the stage at hand
};

}  // namespace

void insert_transfers(Graph& graph) {
  if (graph.stages > 1) StageCutter(graph).cut();
}

}  // namespace s2t
