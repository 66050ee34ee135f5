#include <algorithm>

#include "analyzer/schedule/definitions.h"
#include "analyzer/schedule/script.h"

namespace s2t {
namespace {

// w warm-up forwards, m - w pairs, w drain backwards. With fewer microbatches than stages Megatron
// warms up with all m; torch keeps one pair, so its last warm-up send shares a batch with the first
// gradient: p4 m2 launches 4, 8, 7, 3 batches in Megatron and 3, 7, 7, 3 in torch.
void write(const PipelinePlan& plan, RankScript& to) {
  const int m = plan.microbatches;
  const int most = plan.variant == PipelineVariant::torch ? m - 1 : m;
  const int w = std::min(plan.ranks - 1 - to.rank(), most);
  for (int i = 0; i < w; ++i) {
    to.exchange({to.recv_activation(0, i)});
    to.forward(0, i);
    to.exchange({to.send_activation(0, i)});
  }
  if (w < m) to.exchange({to.recv_activation(0, w)});
  for (int i = w; i < m; ++i) {
    to.forward(0, i);
    to.exchange({to.send_activation(0, i), to.recv_gradient(0, i - w)});
    to.backward(0, i - w);
    std::vector<Action> next{to.send_gradient(0, i - w)};
    if (i + 1 < m) next.push_back(to.recv_activation(0, i + 1));
    to.exchange(next);
  }
  for (int i = m - w; i < m; ++i) {
    to.exchange({to.recv_gradient(0, i)});
    to.backward(0, i);
    to.exchange({to.send_gradient(0, i)});
  }
}

}  // namespace

ScheduleDef one_f_one_b_schedule() {
  return {"1f1b",
          "warm-up forwards, then one forward one backward, then drain",
          "Megatron forward_backward_pipelining_without_interleaving; torch Schedule1F1B",
          false,
          {Batching::single, Batching::batched},
          nullptr,
          write};
}

}  // namespace s2t
