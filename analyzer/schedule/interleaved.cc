#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analyzer/schedule/definitions.h"
#include "analyzer/schedule/script.h"

namespace s2t {
namespace {

struct Step {  // one virtual microbatch: a microbatch in one chunk
  int chunk, microbatch;
};

int group_size(const PipelinePlan& plan) {
  return plan.group == 0 ? plan.ranks : plan.group;
}

// Groups of N microbatches; in a group chunk 0 over its microbatches, then chunk 1, and so on.
// p2 N3 m5 V2: microbatch 0 1 2 0 1 2 3 4 3 4, chunk 0 0 0 1 1 1 0 0 1 1.
std::vector<Step> virtual_steps(const PipelinePlan& plan) {
  std::vector<Step> steps;
  const int m = plan.microbatches;
  for (int first = 0; first < m; first += group_size(plan))
    for (int c = 0; c < plan.chunks; ++c)
      for (int i = first; i < std::min(m, first + group_size(plan)); ++i) steps.push_back({c, i});
  return steps;
}

// What one rank computes at virtual step k and which messages surround it.
class Virtual {
 public:
  Virtual(const PipelinePlan& plan, RankScript& to)
      : plan_(plan), to_(to), steps_(virtual_steps(plan)) {}

  int total() const { return static_cast<int>(steps_.size()); }
  Step forward(int k) const { return steps_[static_cast<size_t>(k)]; }
  Step backward(int k) const {
    return {plan_.chunks - 1 - forward(k).chunk, forward(k).microbatch};
  }

  // The operations that follow forward k: send its result, receive an input. Rank 0 leads the last
  // rank by p-1 steps and receives what that one made at step k-(p-1) (the wrap-around); every
  // other rank receives the input of its own next step.
  std::vector<Action> after_forward(int k) const {
    std::vector<Action> ops{to_.send_activation(forward(k).chunk, forward(k).microbatch)};
    const std::optional<Step> in = next(k, to_.rank() == 0);
    if (in && to_.rank() > 0) ops.push_back(to_.recv_activation(in->chunk, in->microbatch));
    if (in && to_.rank() == 0 && in->chunk + 1 < plan_.chunks)
      ops.push_back(to_.recv_activation(in->chunk + 1, in->microbatch));
    return ops;
  }

  // The same for backward k, where the last rank leads and chunks go down.
  std::vector<Action> after_backward(int k) const {
    const Step done = backward(k);
    std::vector<Action> ops{to_.send_gradient(done.chunk, done.microbatch)};
    const bool leads = to_.rank() == plan_.ranks - 1;
    const std::optional<Step> in = next(k, leads);
    const int chunk = in ? plan_.chunks - 1 - in->chunk - (leads ? 1 : 0) : -1;
    if (chunk >= 0) ops.push_back(to_.recv_gradient(chunk, in->microbatch));
    return ops;
  }

  Action first_gradient() const { return to_.recv_gradient(backward(0).chunk, 0); }

 private:
  std::optional<Step> next(int k, bool leads) const {
    const int from = leads ? k - (plan_.ranks - 1) : k + 1;
    if (from < 0 || from >= total()) return std::nullopt;
    return forward(from);
  }

  const PipelinePlan& plan_;
  RankScript& to_;
  std::vector<Step> steps_;
};

int warm_up(const PipelinePlan& plan, int rank, int total) {
  const bool all = plan.variant == PipelineVariant::megatron_08 && plan.microbatches == plan.ranks;
  if (plan.forward_only || all) return total;
  return std::min(total, 2 * (plan.ranks - 1 - rank) + (plan.chunks - 1) * group_size(plan));
}

std::vector<Action> joined(std::vector<Action> a, const std::vector<Action>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void write(const PipelinePlan& plan, RankScript& to) {
  const Virtual v(plan, to);
  const int total = v.total();
  const int w = warm_up(plan, to.rank(), total);
  const bool all_warm_up = w == total;
  const bool overlapped = plan.batching == Batching::overlapped;
  const auto forward = [&](int k) { to.forward(v.forward(k).chunk, v.forward(k).microbatch); };
  const auto backward = [&](int k) { to.backward(v.backward(k).chunk, v.backward(k).microbatch); };
  // Two sets of operations of one moment: one exchange, or two when computing goes on between.
  const auto both = [&](const std::vector<Action>& a, const std::vector<Action>& b) {
    if (!overlapped) return to.exchange(joined(a, b));
    to.exchange(a);
    to.exchange(b);
  };

  if (to.rank() > 0) to.exchange({to.recv_activation(0, 0)});
  for (int k = 0; k < w; ++k) {
    forward(k);
    if (k + 1 == w && !all_warm_up)
      both(v.after_forward(k), {v.first_gradient()});
    else
      to.exchange(v.after_forward(k));
  }
  for (int k = 0; k < total - w; ++k) {
    forward(w + k);
    if (overlapped) to.exchange(v.after_forward(w + k));
    backward(k);
    to.exchange(overlapped ? v.after_backward(k)
                           : joined(v.after_forward(w + k), v.after_backward(k)));
  }
  if (plan.forward_only) return;
  if (all_warm_up) to.exchange({v.first_gradient()});
  for (int k = total - w; k < total; ++k) {
    backward(k);
    to.exchange(v.after_backward(k));
  }
}

void refuse_megatron_08(const PipelinePlan& plan, std::vector<std::string>& reasons) {
  const int m = plan.microbatches, p = plan.ranks;
  if (plan.group != 0 && plan.group != p)
    reasons.push_back(
        fmt::format("Megatron core 0.8 has no microbatch group size (found {}); it always uses the "
                    "pipeline-model-parallel size {}",
                    plan.group, p));
  if (m % p != 0)
    reasons.push_back(
        fmt::format("the number of microbatches ({}) is not divisible by the "
                    "pipeline-model-parallel size ({}), "
                    "which the interleaved schedule of Megatron core 0.8 requires",
                    m, p));
}

void refuse_megatron(const PipelinePlan& plan, std::vector<std::string>& reasons) {
  const int m = plan.microbatches, p = plan.ranks, n = group_size(plan);
  if (n < p || n > m) {
    reasons.push_back(fmt::format(
        "the microbatch group size per virtual pipeline stage ({}) must lie between the "
        "pipeline-model-parallel size ({}) and the number of microbatches ({})",
        n, p, m));
  } else if (m % n != 0 && m % n < p) {
    reasons.push_back(fmt::format(
        "{} microbatches in groups of {} leave {}; the remainder must be 0 or at least the "
        "pipeline-model-parallel size ({})",
        m, n, m % n, p));
  }
}

void refuse(const PipelinePlan& plan, std::vector<std::string>& reasons) {
  switch (plan.variant) {
    case PipelineVariant::megatron_08:
      return refuse_megatron_08(plan, reasons);
    case PipelineVariant::megatron:
      return refuse_megatron(plan, reasons);
    case PipelineVariant::torch:
      reasons.push_back(
          "torch's ScheduleInterleaved1F1B groups its exchanges by time step; use the schedule "
          "interleaved_steps");
  }
}

}  // namespace

ScheduleDef interleaved_schedule() {
  return {"interleaved",
          "1F1B over several model chunks per rank (virtual pipeline)",
          "Megatron forward_backward_pipelining_with_interleaving; arXiv 2104.04473",
          true,
          {Batching::single, Batching::batched, Batching::overlapped},
          refuse,
          write};
}

}  // namespace s2t
