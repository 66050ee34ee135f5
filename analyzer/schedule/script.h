// The pen with which a schedule writes the list of one rank.
//
// Knows which operations exist at all (the first stage receives no activation, one rank sends
// itself nothing, inference has no gradients) and the order inside an exchange, so that a schedule
// states only its own idea. Not known here: any schedule.
#pragma once

#include <vector>

#include "analyzer/schedule/pipeline.h"

namespace s2t {

class RankScript {
 public:
  RankScript(const PipelinePlan& plan, int rank) : plan_(plan), rank_(rank) {}

  int rank() const { return rank_; }
  void forward(int chunk, int microbatch);
  void backward(int chunk, int microbatch);

  // Operations to hand to `exchange`; one that does not exist has no peer and is left out there.
  Action send_activation(int chunk, int microbatch) const;
  Action recv_activation(int chunk, int microbatch) const;
  Action send_gradient(int chunk, int microbatch) const;
  Action recv_gradient(int chunk, int microbatch) const;

  // One exchange with the neighbours, launched as the plan's batching says.
  void exchange(std::vector<Action> operations);

  ActionList take() { return std::move(list_); }

 private:
  Action make(ActionKind kind, int chunk, int microbatch) const;

  const PipelinePlan& plan_;
  int rank_;
  int batches_ = 0;
  ActionList list_;
};

}  // namespace s2t
