#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analyzer/schedule/definitions.h"
#include "analyzer/schedule/script.h"

namespace s2t {
namespace {

struct Slot {  // what a rank computes in one time step
  bool forward;
  int chunk, microbatch;
};
using Slots = std::vector<std::optional<Slot>>;

// All time steps of a rank, idle ones too (torch.distributed.pipelining.schedules,
// _get_1f1b_rank_ops). p forwards in a row are in one chunk, then p in the next one; backwards likewise
// from the last chunk down; microbatches count up in each chunk.
Slots slots_of(const PipelinePlan& plan, int rank) {
  const int p = plan.ranks, v = plan.chunks, total = v * plan.microbatches;
  const int warm = std::min((v - 1) * p + 2 * (p - 1 - rank), total);
  const auto chunk = [&](int k) { return k / p % v; };
  const auto microbatch = [&](int k) { return k / (p * v) * p + k % p; };
  const auto forward = [&](int k) { return Slot{true, chunk(k), microbatch(k)}; };
  const auto backward = [&](int k) { return Slot{false, v - 1 - chunk(k), microbatch(k)}; };
  Slots slots(static_cast<size_t>(rank));
  for (int k = 0; k < warm; ++k) slots.emplace_back(forward(k));
  // Until the first gradient has come down from the last rank.
  const int wait = v * p + 2 * (p - 1 - rank) - warm - rank;
  slots.resize(slots.size() + static_cast<size_t>(warm > 0 ? std::max(wait, 0) : 0));
  for (int k = warm; k < total; ++k) {
    slots.emplace_back(forward(k));
    slots.emplace_back(backward(k - warm));
  }
  for (int k = total - warm; k < total; ++k) {
    slots.emplace_back();
    slots.emplace_back(backward(k));
  }
  return slots;
}

std::optional<Slot> at(const Slots& slots, size_t step) {
  return step < slots.size() ? slots[step] : std::nullopt;
}

// In every step what a rank computed goes out together with what its neighbours computed in it.
void write(const PipelinePlan& plan, RankScript& to) {
  const int p = plan.ranks, me = to.rank();
  const Slots mine = slots_of(plan, me);
  const Slots before = slots_of(plan, (me + p - 1) % p), behind = slots_of(plan, (me + 1) % p);
  for (size_t step = 0; step < mine.size(); ++step) {
    std::vector<Action> ops;
    if (const auto s = mine[step]; s && s->forward) {
      to.forward(s->chunk, s->microbatch);
      ops.push_back(to.send_activation(s->chunk, s->microbatch));
    } else if (s) {
      to.backward(s->chunk, s->microbatch);
      ops.push_back(to.send_gradient(s->chunk, s->microbatch));
    }
    if (const auto s = at(before, step); s && s->forward)
      if (const int chunk = s->chunk + (me == 0); chunk < plan.chunks)
        ops.push_back(to.recv_activation(chunk, s->microbatch));
    if (const auto s = at(behind, step); s && !s->forward)
      if (const int chunk = s->chunk - (me == p - 1); chunk >= 0)
        ops.push_back(to.recv_gradient(chunk, s->microbatch));
    to.exchange(ops);
  }
}

// torch takes other numbers too; then some rank computes what has not arrived, for all of them wait as
// long as rounds of p microbatches take.
void refuse(const PipelinePlan& plan, std::vector<std::string>& reasons) {
  if (plan.microbatches % plan.ranks != 0)
    reasons.push_back(
        fmt::format("{} microbatches on {} ranks; ranks that compute in step need a multiple",
                    plan.microbatches, plan.ranks));
}

}  // namespace

ScheduleDef interleaved_steps_schedule() {
  return {"interleaved_steps",
          "1F1B over several model chunks per rank, all messages of a time step together",
          "torch.distributed.pipelining 2.6 ScheduleInterleaved1F1B",
          true,
          {Batching::batched},
          refuse,
          write};
}

}  // namespace s2t
