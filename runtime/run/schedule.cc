#include "runtime/run/schedule.h"

#include <algorithm>
#include <utility>

#include "analyzer/base/diagnostics.h"

namespace s2t {
namespace {

class Loop {
 public:
  explicit Loop(const PipelinePlace& place) : at_(place) {}

  void forward(int microbatch, int chunk = 0) {
    turns_.push_back({{{Doing::forward, chunk, microbatch}}});
  }
  void backward(int microbatch, int chunk = 0) {
    if (at_.trains) turns_.push_back({{{Doing::backward, chunk, microbatch}}});
  }

  // Leaves out messages that have no other end: before the first stage, behind the last one.
  void exchange(std::vector<Deed> deeds) {
    std::erase_if(deeds, [&](const Deed& d) { return !exists(d); });
    if (deeds.empty()) return;
    std::stable_sort(deeds.begin(), deeds.end(),
                     [&](const Deed& a, const Deed& b) { return rank_of(a) < rank_of(b); });
    if (at_.batched) {
      turns_.push_back({std::move(deeds)});
    } else {
      for (const Deed& d : deeds) turns_.push_back({{d}});
    }
  }

  const PipelinePlace& at() const { return at_; }
  std::vector<Turn> take() { return std::move(turns_); }

 private:
  bool exists(const Deed& d) const {
    const int stage = at_.stage(d.chunk);
    const bool gradient = d.doing == Doing::send_backward || d.doing == Doing::recv_backward;
    if (at_.ranks == 1 || (gradient && !at_.trains)) return false;
    const bool below = d.doing == Doing::recv_forward || d.doing == Doing::send_backward;
    return below ? stage > 0 : stage + 1 < at_.stages();
  }

  // A batch is posted as a whole: sends, then receives. One by one, even ranks send to the next
  // rank first and odd ranks receive first (Megatron p2p_communication.py, _p2p_ops).
  int rank_of(const Deed& d) const {
    const bool gradient = d.doing == Doing::send_backward || d.doing == Doing::recv_backward;
    const bool send = d.doing == Doing::send_forward || d.doing == Doing::send_backward;
    if (at_.batched) return (send ? 0 : 2) + (gradient ? 1 : 0);
    return (gradient ? 2 : 0) + (send == (at_.rank % 2 == 0) ? 0 : 1);
  }

  PipelinePlace at_;
  std::vector<Turn> turns_;
};

Deed sf(int m, int c = 0) {
  return {Doing::send_forward, c, m};
}
Deed rf(int m, int c = 0) {
  return {Doing::recv_forward, c, m};
}
Deed sb(int m, int c = 0) {
  return {Doing::send_backward, c, m};
}
Deed rb(int m, int c = 0) {
  return {Doing::recv_backward, c, m};
}

// torch.distributed.pipelining ScheduleGPipe; `reversed` as in hand-written loops.
void gpipe(Loop& loop, bool reversed) {
  const int m = loop.at().microbatches;
  for (int i = 0; i < m; ++i) {
    loop.exchange({rf(i)});
    loop.forward(i);
    loop.exchange({sf(i)});
  }
  for (int i = 0; i < m; ++i) {
    const int b = reversed ? m - 1 - i : i;
    loop.exchange({rb(b)});
    loop.backward(b);
    loop.exchange({sb(b)});
  }
}

// Megatron forward_backward_pipelining_without_interleaving.
void one_forward_one_backward(Loop& loop) {
  const int m = loop.at().microbatches;
  const int warm_up = std::min(loop.at().ranks - loop.at().rank - 1, m);
  const int steady = m - warm_up;
  for (int i = 0; i < warm_up; ++i) {
    loop.exchange({rf(i)});
    loop.forward(i);
    loop.exchange({sf(i)});
  }
  if (steady > 0) loop.exchange({rf(warm_up)});
  for (int i = 0; i < steady; ++i) {
    loop.forward(warm_up + i);
    loop.exchange({sf(warm_up + i), rb(i)});
    loop.backward(i);
    if (i + 1 < steady)
      loop.exchange({sb(i), rf(warm_up + i + 1)});
    else
      loop.exchange({sb(i)});
  }
  for (int i = steady; i < m; ++i) {
    loop.exchange({rb(i)});
    loop.backward(i);
    loop.exchange({sb(i)});
  }
}

// Megatron forward_backward_pipelining_with_interleaving, microbatch groups as large as the
// pipeline.
class Interleaved {
 public:
  explicit Interleaved(Loop& loop) : loop_(loop), at_(loop.at()) {}

  void write() {
    const int warm =
        at_.trains && !(at_.warm_up_all && at_.microbatches == at_.ranks)
            ? std::min(total(), 2 * (at_.ranks - at_.rank - 1) + (at_.chunks - 1) * at_.ranks)
            : total();
    if (at_.rank > 0) loop_.exchange({rf(0, 0)});
    for (int k = 0; k < warm; ++k) {
      loop_.forward(microbatch(k), chunk(k));
      const bool last = k + 1 == warm && warm < total();
      exchange(after_forward(k), last ? std::vector{rb(0, at_.chunks - 1)} : std::vector<Deed>{});
    }
    for (int k = 0; warm + k < total(); ++k) {
      loop_.forward(microbatch(warm + k), chunk(warm + k));
      std::vector<Deed> activations = after_forward(warm + k);
      if (at_.overlapped) loop_.exchange(std::exchange(activations, {}));
      loop_.backward(microbatch(k), last_chunk(k));
      exchange(std::move(activations), after_backward(k));
    }
    if (!at_.trains) return;
    if (warm == total()) loop_.exchange({rb(0, at_.chunks - 1)});
    for (int k = total() - warm; k < total(); ++k) {
      loop_.backward(microbatch(k), last_chunk(k));
      loop_.exchange(after_backward(k));
    }
  }

 private:
  // Activations and gradients at one moment, in one go unless they are overlapped.
  void exchange(std::vector<Deed> activations, const std::vector<Deed>& gradients) {
    if (at_.overlapped) {
      loop_.exchange(std::move(activations));
      return loop_.exchange(gradients);
    }
    activations.insert(activations.end(), gradients.begin(), gradients.end());
    loop_.exchange(std::move(activations));
  }

  int total() const { return at_.microbatches * at_.chunks; }
  // Virtual microbatch k: groups of p microbatches go through chunk 0, then chunk 1, and so on. A
  // last, smaller group likewise.
  int group(int k) const { return k / (at_.ranks * at_.chunks); }
  int group_size(int k) const {
    return std::min(at_.ranks, at_.microbatches - group(k) * at_.ranks);
  }
  int within(int k) const { return k - group(k) * at_.ranks * at_.chunks; }
  int chunk(int k) const { return within(k) / group_size(k); }
  int last_chunk(int k) const { return at_.chunks - 1 - chunk(k); }
  int microbatch(int k) const { return group(k) * at_.ranks + within(k) % group_size(k); }

  // The input that the pipeline's first rank gets back from the last one p - 1 steps later.
  std::vector<Deed> after_forward(int k) const {
    std::vector<Deed> deeds{sf(microbatch(k), chunk(k))};
    if (at_.rank > 0) {
      if (k + 1 < total()) deeds.push_back(rf(microbatch(k + 1), chunk(k + 1)));
    } else if (const int from = k - (at_.ranks - 1); from >= 0 && chunk(from) + 1 < at_.chunks) {
      deeds.push_back(rf(microbatch(from), chunk(from) + 1));
    }
    return deeds;
  }

  std::vector<Deed> after_backward(int k) const {
    std::vector<Deed> deeds{sb(microbatch(k), last_chunk(k))};
    if (at_.rank + 1 < at_.ranks) {
      if (k + 1 < total()) deeds.push_back(rb(microbatch(k + 1), last_chunk(k + 1)));
    } else if (const int from = k - (at_.ranks - 1); from >= 0 && last_chunk(from) > 0) {
      deeds.push_back(rb(microbatch(from), last_chunk(from) - 1));
    }
    return deeds;
  }

  Loop& loop_;
  const PipelinePlace& at_;
};

// torch.distributed.pipelining ScheduleInterleaved1F1B: ranks compute in step, and after each step hand
// over what came out of it. What everybody does when, stage by stage, is known to all.
class InStep {
 public:
  explicit InStep(Loop& loop) : loop_(loop), at_(loop.at()) {
    for (int rank = 0; rank < at_.ranks; ++rank) plans_.push_back(plan_of(rank));
  }

  void write() {
    for (size_t step = 0; step < plan(at_.rank).size(); ++step) {
      std::vector<Deed> deeds;
      if (const Work& own = plan(at_.rank)[step]; own.stage >= 0) {
        const int chunk = own.stage / at_.ranks;
        own.forward ? loop_.forward(own.microbatch, chunk) : loop_.backward(own.microbatch, chunk);
        deeds.push_back(own.forward ? sf(own.microbatch, chunk) : sb(own.microbatch, chunk));
      }
      for (int rank = 0; rank < at_.ranks; ++rank)
        if (step < plan(rank).size()) receive(plan(rank)[step], deeds);
      loop_.exchange(deeds);
    }
  }

 private:
  struct Work {
    bool forward = true;
    int stage = -1, microbatch = 0;
  };
  using Plan = std::vector<Work>;

  const Plan& plan(int rank) const { return plans_[static_cast<size_t>(rank)]; }

  Plan plan_of(int rank) const {
    const int in_round = at_.microbatches / std::max(1, at_.microbatches / at_.ranks);
    const int all = at_.microbatches * at_.chunks, hops = at_.ranks - 1 - rank;
    const int warm = std::min(all, (at_.chunks - 1) * in_round + 2 * hops);
    std::vector<int> forwards(static_cast<size_t>(at_.chunks)), backwards = forwards;
    Plan plan(static_cast<size_t>(rank));
    int begun = 0, ended = 0;
    const auto forward = [&] {
      const int chunk = begun++ / in_round % at_.chunks;
      plan.push_back({true, chunk * at_.ranks + rank, forwards[static_cast<size_t>(chunk)]++});
    };
    const auto backward = [&] {
      const int chunk = at_.chunks - 1 - ended++ / in_round % at_.chunks;
      plan.push_back({false, chunk * at_.ranks + rank, backwards[static_cast<size_t>(chunk)]++});
    };
    while (begun < warm) forward();
    const int first_gradient = at_.chunks * at_.ranks + 2 * hops;
    while (warm > 0 && static_cast<int>(plan.size()) < first_gradient) plan.emplace_back();
    while (begun < all) forward(), backward();
    while (ended < all) plan.emplace_back(), backward();
    return plan;
  }

  // What comes out of another rank's work for a stage of ours.
  void receive(const Work& work, std::vector<Deed>& deeds) const {
    if (work.stage < 0) return;
    const int reader = work.forward ? work.stage + 1 : work.stage - 1;
    if (reader < 0 || reader >= at_.stages() || reader % at_.ranks != at_.rank) return;
    const int chunk = reader / at_.ranks;
    deeds.push_back(work.forward ? rf(work.microbatch, chunk) : rb(work.microbatch, chunk));
  }

  Loop& loop_;
  const PipelinePlace& at_;
  std::vector<Plan> plans_;
};

// DeepSpeed runtime/pipe/schedule.py, TrainSchedule: even and odd steps alternate between forward
// and backward; what the step before made is sent after what this step needs has been received.
void deepspeed(Loop& loop) {
  const int p = loop.at().ranks, m = loop.at().microbatches, s = loop.at().rank;
  int before = -1;
  for (int step = 0; step < 2 * (m + p - 1); ++step) {
    const bool forward = (step % 2 == 0) == (s % 2 == 0);
    const int now = forward ? (step - s) / 2 : (step + s + 1) / 2 - p;
    const bool valid = now >= 0 && now < m && (!forward || step >= s);
    const bool sends = before >= 0 && before < m;
    if (forward) {
      if (sends) loop.exchange({sb(before)});
      if (valid) loop.exchange({rf(now)});
      if (valid) loop.forward(now);
    } else {
      if (valid) loop.exchange({rb(now)});
      if (sends) loop.exchange({sf(before)});
      if (valid) loop.backward(now);
    }
    before = valid ? now : -1;
  }
}

// InferenceSchedule: even stages send before they receive, odd ones after.
void deepspeed_inference(Loop& loop) {
  const int p = loop.at().ranks, m = loop.at().microbatches, s = loop.at().rank;
  for (int step = 0; step < m + p - 1; ++step) {
    const int now = step - s, before = now - 1;
    const bool sends = before >= 0 && before < m;
    if (sends && s % 2 == 0) loop.exchange({sf(before)});
    if (now >= 0 && now < m) loop.exchange({rf(now)});
    if (sends && s % 2 == 1) loop.exchange({sf(before)});
    if (now >= 0 && now < m) loop.forward(now);
  }
}

}  // namespace

std::vector<Turn> turns_of(const PipelineDecl& decl, const PipelinePlace& place) {
  Loop loop(place);
  if (decl.schedule == "gpipe")
    gpipe(loop, decl.drain == "reversed");
  else if (decl.schedule == "1f1b")
    one_forward_one_backward(loop);
  else if (decl.schedule == "interleaved")
    Interleaved(loop).write();
  else if (decl.schedule == "interleaved_steps")
    InStep(loop).write();
  else if (decl.schedule == "deepspeed")
    place.trains ? deepspeed(loop) : deepspeed_inference(loop);
  else
    throw Fault("the runtime has no pipeline schedule " + decl.schedule);
  return loop.take();
}

std::vector<Turn> turns_of_one_stage(int64_t microbatches, bool trains) {
  std::vector<Turn> turns;
  for (int m = 0; m < static_cast<int>(microbatches); ++m) {
    turns.push_back({{{Doing::forward, 0, m}}});
    if (trains) turns.push_back({{{Doing::backward, 0, m}}});
  }
  return turns;
}

}  // namespace s2t
