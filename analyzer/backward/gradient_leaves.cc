#include "analyzer/backward/gradient_leaves.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

class Collector {
 public:
  Collector(const Graph& graph, const Backward& backward) : graph_(graph), backward_(backward) {}

  std::vector<GradientLeaf> collect() {
    for (const TensorId p : parameters_of(graph_)) {
      std::map<int64_t, size_t> held;  // by pipeline rank, which holds one copy: its leaf
      for (const int stage : stages_of(graph_, p))
        for (const Contribution& arrived : backward_.leaf_gradients[p.at()])
          if (first_source({arrived}, stage).valid()) {
            const auto [at, fresh] = held.emplace(pipeline_rank(graph_, stage), leaves_.size());
            if (fresh)
              leaves_.push_back(leaf_of(p, stage, arrived.layout));
            else
              check_alike(leaves_[at->second], stage, arrived.layout);
          }
    }
    return std::move(leaves_);
  }

 private:
  // What a rank adds up locally and reduces once has one layout, and belongs to one stage.
  void check_alike(const GradientLeaf& leaf, int stage, const Layout& other) const {
    const std::string name = quoted(graph_.value(leaf.parameter).name);
    if (stage != leaf.stage)
      refuse(graph_, leaf, "shared-by-chunks",
             fmt::format("parameter {} is used by stages {} and {}, chunks of one pipeline rank",
                         name, leaf.stage, stage),
             "a parameter of one chunk", "Give each chunk a parameter of its own.");
    if (other != leaf.gradient)
      refuse(
          graph_, leaf, "two-gradient-layouts",
          fmt::format("the gradient of {} arrives as {} from one op and as {} from another", name,
                      to_string(leaf.gradient, graph_.mesh), to_string(other, graph_.mesh)),
          "one layout", "Pin what these ops read so that they use the parameter alike.");
  }

  // The last op of a stage whose backward adds to a gradient: the first in forward order.
  OpId first_source(const std::vector<Contribution>& arrived, int stage) const {
    OpId first;
    for (const Contribution& c : arrived)
      for (const OpId op : c.sources)
        if (graph_.op(op).stage == stage && (!first.valid() || op < first)) first = op;
    return first;
  }

  GradientLeaf leaf_of(TensorId p, int stage, const Layout& gradient) const {
    const Value& v = graph_.value(p);
    GradientLeaf leaf{p,
                      stage,
                      gradient,
                      v.layout,
                      0,
                      0,
                      {},
                      graph_.sync.dtype.value_or(v.dtype),
                      v.dtype,
                      local_shape(v.shape, v.layout, graph_.mesh),
                      stages_of(graph_, p).size() > 1,
                      v.expert};
    const AtomSet allowed = sync_atoms(graph_, p);
    for (size_t i = 0; i < graph_.atoms(); ++i) {
      const AtomIndex a(i);
      if (!gradient[a].is_partial() || graph_.mesh.atom(a).size == 1) continue;
      if (contains(allowed, a))
        leaf.data |= atom_bit(a);
      else if (!graph_.per_rank[i])
        leaf.model |= atom_bit(a);
    }
    leaf.ready = first_source(backward_.leaf_gradients[p.at()], stage);
    return leaf;
  }

  const Graph& graph_;
  const Backward& backward_;
  std::vector<GradientLeaf> leaves_;
};

}  // namespace

std::vector<GradientLeaf> gradient_leaves(const Graph& graph, const Backward& backward) {
  return Collector(graph, backward).collect();
}

void refuse(const Graph& graph, const GradientLeaf& leaf, const std::string& slug,
            const std::string& found, const std::string& expected, const std::string& advice) {
  throw UserError(graph.file,
                  {{graph.value(leaf.parameter).pointer, found, expected, advice, slug}});
}

int64_t pipeline_rank(const Graph& graph, int stage) {
  const auto atom = graph.mesh.pipeline_atom();
  return atom ? stage % graph.mesh.atom(*atom).size : 0;
}

std::vector<TensorId> parameters_of(const Graph& graph) {
  std::vector<TensorId> list;
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].parameter) list.push_back(TensorId(v));
  return list;
}

std::vector<int> stages_of(const Graph& graph, TensorId parameter) {
  std::vector<int> stages;
  for (const Use& use : graph.value(parameter).uses) stages.push_back(graph.op(use.op).stage);
  std::sort(stages.begin(), stages.end());
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  return stages;
}

AtomSet sync_atoms(const Graph& graph, TensorId parameter) {
  AtomSet atoms = 0;
  if (graph.value(parameter).expert) return graph.mesh.expert_data_atoms();
  if (graph.sync.axes.empty()) return graph.data_atoms;
  for (const std::string& name : graph.sync.axes)
    if (const Axis* axis = graph.mesh.find(name)) atoms |= axis->atoms;
  return atoms;
}

}  // namespace s2t
