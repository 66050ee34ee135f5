// Plans of the tests, written short.
#pragma once

#include <string>
#include <vector>

#include "analyzer/schedule/pipeline.h"

namespace s2t::testing {

inline PipelinePlan plan(std::string schedule, int p, int m, int v = 1) {
  PipelinePlan out;
  out.schedule = std::move(schedule);
  out.ranks = p;
  out.chunks = v;
  out.microbatches = m;
  if (out.schedule == "deepspeed") out.batching = Batching::single;
  return out;
}

inline PipelinePlan with(PipelinePlan p, Batching batching) {
  p.batching = batching;
  return p;
}
inline PipelinePlan with(PipelinePlan p, PipelineVariant variant) {
  p.variant = variant;
  return p;
}
inline PipelinePlan with(PipelinePlan p, Drain drain) {
  p.drain = drain;
  return p;
}
inline PipelinePlan inference(PipelinePlan p) {
  p.forward_only = true;
  return p;
}

template <class Get>
std::vector<int> per_rank(const PipelinePlan& p, Get get) {
  std::vector<int> n;
  for (const ActionList& list : build_schedule(p)) n.push_back(get(list));
  return n;
}
inline std::vector<int> kernels(const PipelinePlan& p) {
  return per_rank(p, [](const ActionList& list) { return count(list).kernels; });
}
inline std::vector<int> messages(const PipelinePlan& p) {
  return per_rank(p, [](const ActionList& list) { return count(list).messages; });
}
inline std::vector<int> peaks(const PipelinePlan& p) {
  return per_rank(p, [](const ActionList& list) { return count(list).peak_activations; });
}

// Forwards before the one that directly precedes the first backward; all of them if none follows.
inline std::vector<int> warm_ups(const PipelinePlan& p) {
  return per_rank(p, [](const ActionList& list) {
    int before = 0, all = 0;
    bool backward = false;
    for (const Action& a : list) {
      backward |= a.kind == ActionKind::backward;
      if (a.kind != ActionKind::forward) continue;
      ++all;
      before += !backward;
    }
    return before == all ? all : before - 1;
  });
}

}  // namespace s2t::testing
