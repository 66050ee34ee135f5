#include "analyzer/schedule/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/text.h"
#include "analyzer/schedule/definitions.h"
#include "analyzer/schedule/script.h"

namespace s2t {
namespace {

constexpr int kMost = 1 << 20;  // ranks, chunks and microbatches: keeps every product in range
constexpr long kMostActions = 1L << 28;

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const ScheduleDef& s : schedules()) names.emplace_back(s.name);
  return names;
}

void refuse_sizes(const PipelinePlan& plan, std::vector<std::string>& reasons) {
  const std::array<std::pair<const char*, int>, 3> sizes{
      {{"the pipeline-model-parallel size", plan.ranks},
       {"the number of model chunks per rank (virtual pipeline size)", plan.chunks},
       {"the number of microbatches", plan.microbatches}}};
  for (const auto& [what, n] : sizes)
    if (n < 1 || n > kMost)
      reasons.push_back(fmt::format("{} is {}; it must lie between 1 and {}", what, n, kMost));
  if (plan.group < 0 || plan.group > kMost)
    reasons.push_back(fmt::format("the microbatch group size is {}; it must lie between 0 and {}",
                                  plan.group, kMost));
  if (!reasons.empty()) return;
  const long chunks_run = long{plan.ranks} * plan.chunks;
  if (chunks_run > kMostActions / plan.microbatches)
    reasons.push_back(
        fmt::format("{} stages x {} microbatches are too many actions to list (at most {})",
                    commas(static_cast<uint64_t>(chunks_run)), plan.microbatches,
                    commas(static_cast<uint64_t>(kMostActions))));
}

void refuse_options(const PipelinePlan& plan, const ScheduleDef& def,
                    std::vector<std::string>& reasons) {
  if (plan.chunks > 1 && !def.chunked)
    reasons.push_back(fmt::format(
        "the {} schedule runs one model chunk per rank (found {}); use interleaved for virtual "
        "pipeline stages",
        def.name, plan.chunks));
  const auto& known = def.batchings;
  if (std::find(known.begin(), known.end(), plan.batching) == known.end())
    reasons.push_back(fmt::format("the {} schedule cannot launch its point-to-point operations {}",
                                  def.name, name(plan.batching)));
  if (plan.drain == Drain::reversed && def.name != "gpipe")
    reasons.push_back(
        fmt::format("only gpipe can drain in reverse; {} fixes its own order", def.name));
  if (plan.group != 0 && !def.chunked)
    reasons.push_back(fmt::format("the {} schedule has no microbatch group size", def.name));
}

}  // namespace

std::span<const ScheduleDef> schedules() {
  static const std::array<ScheduleDef, 5> table{gpipe_schedule(), one_f_one_b_schedule(),
                                                interleaved_schedule(),
                                                interleaved_steps_schedule(), deepspeed_schedule()};
  return table;
}

const ScheduleDef* find_schedule(std::string_view name) {
  for (const ScheduleDef& s : schedules())
    if (s.name == name) return &s;
  return nullptr;
}

std::vector<std::string> refusals(const PipelinePlan& plan) {
  std::vector<std::string> reasons;
  const ScheduleDef* def = find_schedule(plan.schedule);
  if (!def) {
    const std::vector<std::string> names = schedule_names();
    std::string text = fmt::format("no schedule named {}; there are {}", quoted(plan.schedule),
                                   quoted_list(names));
    const std::string hint = did_you_mean(plan.schedule, names);
    reasons.push_back(hint.empty() ? text : text + ". " + hint);
  }
  refuse_sizes(plan, reasons);
  if (!reasons.empty()) return reasons;
  refuse_options(plan, *def, reasons);
  if (def->refuse) def->refuse(plan, reasons);
  return reasons;
}

RankedActions build_schedule(const PipelinePlan& plan) {
  if (const auto reasons = refusals(plan); !reasons.empty())
    throw Fault("pipeline plan was not validated: " + reasons.front());
  RankedActions ranks;
  for (int r = 0; r < plan.ranks; ++r) {
    RankScript script(plan, r);
    find_schedule(plan.schedule)->write(plan, script);
    ranks.push_back(script.take());
  }
  return ranks;
}

std::string to_string(const Action& a, Labels labels) {
  static constexpr std::array<std::string_view, 6> kLetters{"F", "B", "sf", "rf", "sb", "rb"};
  std::string text{kLetters[static_cast<size_t>(a.kind)]};
  if (labels == Labels::brief && !is_compute(a.kind)) return text;
  text += std::to_string(a.microbatch);
  return a.chunk > 0 ? text + "." + std::to_string(a.chunk) : text;
}

std::string to_string(const ActionList& actions, Labels labels) {
  std::string text;
  for (size_t i = 0; i < actions.size();) {
    size_t end = i + 1;
    while (end < actions.size() && actions[i].batch >= 0 && actions[end].batch == actions[i].batch)
      ++end;
    std::string unit = to_string(actions[i], labels);
    for (size_t k = i + 1; k < end; ++k) unit += "|" + to_string(actions[k], labels);
    text += (i ? " " : "") + (end - i > 1 ? "[" + unit + "]" : unit);
    i = end;
  }
  return text;
}

std::string_view name(Batching batching) {
  static constexpr std::array<std::string_view, 3> kNames{"single", "batched", "overlapped"};
  return kNames[static_cast<size_t>(batching)];
}

std::string_view name(Drain drain) {
  return drain == Drain::forward ? "forward" : "reversed";
}

std::string_view name(PipelineVariant variant) {
  static constexpr std::array<std::string_view, 3> kNames{"megatron-0.8", "megatron", "torch"};
  return kNames[static_cast<size_t>(variant)];
}

PipelineCounts count(const ActionList& actions) {
  PipelineCounts n;
  int held = 0, last_batch = -1;
  bool trains = false;
  for (const Action& a : actions) {
    if (is_compute(a.kind)) {
      held += a.kind == ActionKind::forward ? 1 : -1;
      trains |= a.kind == ActionKind::backward;
      n.peak_activations = std::max(n.peak_activations, held);
      continue;
    }
    ++n.messages;
    n.sends += is_send(a.kind);
    n.kernels += a.batch != last_batch || a.batch < 0;
    last_batch = a.batch;
  }
  if (!trains) n.peak_activations = std::min(n.peak_activations, 1);  // nothing is kept
  return n;
}

}  // namespace s2t
