#include "analyzer/schedule/definitions.h"
#include "analyzer/schedule/script.h"

namespace s2t {
namespace {

// Stage s forwards on steps of its own parity and backwards on the others; the microbatch follows
// from the step. The message of the previous step is sent at the next one, after the receive that
// unblocks the neighbour (DeepSpeed runtime/pipe/schedule.py, TrainSchedule).
void train(const PipelinePlan& plan, RankScript& to) {
  const int p = plan.ranks, m = plan.microbatches, s = to.rank();
  const auto exists = [&](int i) { return i >= 0 && i < m; };
  int previous = -1;
  for (int step = 0; step < 2 * (m + p - 1); ++step) {
    const bool forward = step % 2 == s % 2;
    // Forwards reach stage s after s steps, backwards after 2(p-1) - s more.
    const int i = forward ? (step - s) / 2 : (step + s + 1) / 2 - p;
    const bool valid = exists(i);
    if (forward) {
      if (exists(previous)) to.exchange({to.send_gradient(0, previous)});
      if (valid) to.exchange({to.recv_activation(0, i)});
      if (valid) to.forward(0, i);
    } else {
      if (valid) to.exchange({to.recv_gradient(0, i)});
      if (exists(previous)) to.exchange({to.send_activation(0, previous)});
      if (valid) to.backward(0, i);
    }
    previous = valid ? i : -1;
  }
}

// InferenceSchedule: a step sends what the previous one made; even stages send first.
void infer(const PipelinePlan& plan, RankScript& to) {
  const int p = plan.ranks, m = plan.microbatches, s = to.rank();
  for (int step = 0; step < m + p - 1; ++step) {
    const int i = step - s;
    const bool now = i >= 0 && i < m, before = i >= 1 && i <= m;
    if (before && s % 2 == 0) to.exchange({to.send_activation(0, i - 1)});
    if (now) to.exchange({to.recv_activation(0, i)});
    if (before && s % 2 == 1) to.exchange({to.send_activation(0, i - 1)});
    if (now) to.forward(0, i);
  }
}

void write(const PipelinePlan& plan, RankScript& to) {
  plan.forward_only ? infer(plan, to) : train(plan, to);
}

}  // namespace

ScheduleDef deepspeed_schedule() {
  return {"deepspeed",
          "1F1B by alternating steps; a gradient is received before an activation is sent",
          "DeepSpeed runtime/pipe/schedule.py TrainSchedule",
          false,
          {Batching::single},
          nullptr,
          write};
}

}  // namespace s2t
