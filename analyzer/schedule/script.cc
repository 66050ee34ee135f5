#include "analyzer/schedule/script.h"

#include <algorithm>
#include <array>

namespace s2t {
namespace {

// Place of each operation inside an exchange, by ActionKind. A batch is posted as a whole, so its
// order only numbers events: sends first, activations first. One by one, the order decides whether
// two ranks meet: even ranks send forward first, odd ranks receive first, and activations move
// before gradients (Megatron p2p_communication.py, _p2p_ops).
using Order = std::array<int, 6>;  // forward backward sf rf sb rb
constexpr Order kBatched{0, 0, 0, 2, 1, 3};
constexpr Order kEven{0, 0, 0, 1, 2, 3};
constexpr Order kOdd{0, 0, 1, 0, 3, 2};

}  // namespace

Action RankScript::make(ActionKind kind, int chunk, int microbatch) const {
  const int p = plan_.ranks;
  const int stage = chunk * p + rank_;
  Action a{kind, stage, chunk, microbatch, -1, -1};
  if (is_compute(kind) || p == 1) return a;
  const bool gradient = kind == ActionKind::send_gradient || kind == ActionKind::recv_gradient;
  if (gradient && plan_.forward_only) return a;
  const bool downstream = kind == ActionKind::send_activation || kind == ActionKind::recv_gradient;
  const int other = downstream ? stage + 1 : stage - 1;
  if (other >= 0 && other < plan_.stages()) a.peer = other % p;
  return a;
}

void RankScript::forward(int chunk, int microbatch) {
  list_.push_back(make(ActionKind::forward, chunk, microbatch));
}
void RankScript::backward(int chunk, int microbatch) {
  if (!plan_.forward_only) list_.push_back(make(ActionKind::backward, chunk, microbatch));
}
Action RankScript::send_activation(int chunk, int microbatch) const {
  return make(ActionKind::send_activation, chunk, microbatch);
}
Action RankScript::recv_activation(int chunk, int microbatch) const {
  return make(ActionKind::recv_activation, chunk, microbatch);
}
Action RankScript::send_gradient(int chunk, int microbatch) const {
  return make(ActionKind::send_gradient, chunk, microbatch);
}
Action RankScript::recv_gradient(int chunk, int microbatch) const {
  return make(ActionKind::recv_gradient, chunk, microbatch);
}

void RankScript::exchange(std::vector<Action> operations) {
  std::erase_if(operations, [](const Action& a) { return a.peer < 0; });
  const bool batched = plan_.batching == Batching::batched;
  const Order& order = batched ? kBatched : rank_ % 2 == 0 ? kEven : kOdd;
  const auto place = [&](const Action& a) { return order[static_cast<size_t>(a.kind)]; };
  std::stable_sort(operations.begin(), operations.end(),
                   [&](const Action& a, const Action& b) { return place(a) < place(b); });
  for (Action& a : operations) {
    a.batch = batched ? batches_ : batches_++;
    list_.push_back(a);
  }
  if (batched && !operations.empty()) ++batches_;
}

}  // namespace s2t
