#include "analyzer/analyze.h"

#include "analyzer/backward/derive.h"
#include "analyzer/backward/gradient_sync.h"
#include "analyzer/backward/needs.h"
#include "analyzer/forward/plan.h"
#include "analyzer/graph/graph.h"
#include "analyzer/schedule/assemble.h"

namespace s2t {

Program analyze(const Model& model, const Costs& costs) {
  const Graph graph = build_graph(model);
  const Forward forward = plan_forward(graph);
  const Needs needs = find_needed_gradients(graph);
  const Backward backward = derive_backward(graph, forward, needs);
  const Sync sync = plan_gradient_sync(graph, backward);

  Unpruned unpruned{find_needed_gradients(graph, true), {}};
  if (unpruned.needs != needs) unpruned.backward = derive_backward(graph, forward, unpruned.needs);
  Program program = assemble(graph, forward, needs, backward, sync, unpruned, costs);
  if (model.published_parameters) program.parameters = *model.published_parameters;
  program.remarks.insert(program.remarks.begin(), model.remarks.begin(), model.remarks.end());
  return program;
}

}  // namespace s2t
