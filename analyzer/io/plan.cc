#include "analyzer/io/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/base/text.h"
#include "analyzer/io/model_sections.h"

namespace s2t {

bool Plan::countable() const {
  int64_t ranks = 1;
  for (const int64_t n : {tp, pp, cp, std::max<int64_t>(dp, 1)})
    if (ranks <= kMostRanks) ranks *= n;
  return ranks <= kMostRanks;
}

bool Plan::tokens_countable() const {
  int64_t most = kMostSize;
  for (const int64_t n : {seq, micro_batch, dp}) most /= std::max<int64_t>(n, 1);
  return most >= 1;
}

namespace {

// Layers of each pipeline rank where its ends differ from the rest; empty if they do not divide.
std::vector<int64_t> with_ends(const Plan& plan, int64_t layers) {
  const int64_t ends = (plan.first_layers > 0) + (plan.last_layers > 0);
  const int64_t rest = layers - plan.first_layers - plan.last_layers, ranks = plan.pp - ends;
  const bool divides = ranks == 0 ? rest == 0 : ranks > 0 && rest > 0 && rest % ranks == 0;
  if (!divides) return {};
  std::vector<int64_t> of_ranks(static_cast<size_t>(plan.pp), ranks > 0 ? rest / ranks : 0);
  if (plan.first_layers > 0) of_ranks.front() = plan.first_layers;
  if (plan.last_layers > 0) of_ranks.back() = plan.last_layers;
  std::vector<int64_t> stages;
  for (int64_t chunk = 0; chunk < plan.vpp; ++chunk)
    for (const int64_t n : of_ranks) {
      if (n % plan.vpp != 0) return {};
      stages.push_back(n / plan.vpp);
    }
  return stages;
}

void resolve_dp(Plan& plan) {
  if (plan.dp > 0) return;
  plan.dp = 1;
  if (!plan.world || !plan.countable()) return;
  const int64_t replica = plan.tp * plan.pp * plan.cp;
  if (*plan.world % replica == 0) plan.dp = *plan.world / replica;
}

void resolve_chunks(Plan& plan, int64_t layers) {
  if (plan.vpp > 0) return;
  const int64_t once = plan.pp * plan.layers_per_chunk;
  plan.vpp = once > 0 && layers > 0 && layers % once == 0 ? layers / once : 1;
}

}  // namespace

Plan resolved(Plan plan, const Architecture& a) {
  resolve_dp(plan);
  resolve_chunks(plan, a.layers);
  const bool own_ends = plan.first_layers > 0 || plan.last_layers > 0;
  const int64_t stages = plan.pp * plan.vpp;
  if (plan.stage_layers.empty() && own_ends) plan.stage_layers = with_ends(plan, a.layers);
  if (plan.stage_layers.empty() && !own_ends && a.layers > 0 && a.layers % stages == 0)
    plan.stage_layers.assign(static_cast<size_t>(stages), a.layers / stages);
  return plan;
}

std::vector<Remark> plan_remarks(const Architecture& a, const Plan& plan) {
  std::vector<Remark> remarks;
  if (a.stated_positions > 0 && plan.seq > a.stated_positions)
    remarks.push_back(
        {"long-samples",
         fmt::format("samples of {} tokens, but the config states {} positions ({}): these have no "
                     "rows in a table, so every size follows from --seq",
                     commas(static_cast<uint64_t>(plan.seq)),
                     commas(static_cast<uint64_t>(a.stated_positions)), a.at.at("positions"))});
  return remarks;
}

}  // namespace s2t
