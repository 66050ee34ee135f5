#include "analyzer/program/selection.h"

#include <algorithm>

#include "analyzer/program/owner.h"

namespace s2t {

bool on_stage(const RankSet& set, const Program& program, int64_t stage) {
  const Axis* pipeline = program.mesh.find(program.pipeline_axis);
  if (!pipeline) return stage == 0;
  return std::all_of(set.along.begin(), set.along.end(), [&](const RankSet::Along& a) {
    return a.atoms != pipeline->atoms ||
           std::find(a.coordinates.begin(), a.coordinates.end(), stage) != a.coordinates.end();
  });
}

bool selects(const Selection& selection, const Program& program, const Event& event) {
  if (selection.rank && !contains(event.ranks, program.mesh, *selection.rank)) return false;
  if (selection.stage && !on_stage(event.ranks, program, *selection.stage)) return false;
  return selection.module.empty() || belongs(event, selection.module);
}

}  // namespace s2t
