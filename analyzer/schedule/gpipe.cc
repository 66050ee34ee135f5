#include "analyzer/schedule/definitions.h"
#include "analyzer/schedule/script.h"

namespace s2t {
namespace {

// Fill, then drain. Every operation is an exchange of its own.
void write(const PipelinePlan& plan, RankScript& to) {
  const int m = plan.microbatches;
  for (int i = 0; i < m; ++i) {
    to.exchange({to.recv_activation(0, i)});
    to.forward(0, i);
    to.exchange({to.send_activation(0, i)});
  }
  for (int k = 0; k < m; ++k) {
    const int i = plan.drain == Drain::reversed ? m - 1 - k : k;
    to.exchange({to.recv_gradient(0, i)});
    to.backward(0, i);
    to.exchange({to.send_gradient(0, i)});
  }
}

}  // namespace

ScheduleDef gpipe_schedule() {
  return {"gpipe",
          "all forwards, then all backwards (drain forward or reversed)",
          "torch.distributed.pipelining ScheduleGPipe; arXiv 1811.06965",
          false,
          {Batching::single, Batching::batched},
          nullptr,
          write};
}

}  // namespace s2t
