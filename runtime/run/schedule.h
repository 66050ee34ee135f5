// Which stage a pipeline rank runs when: the order of its forwards, backwards and messages.
//
// The runtime's own loops, written after the frameworks' (named in schedule.cc), so that a run can
// contradict a prediction. Known here: one rank's place among the pipeline ranks. Not known here:
// tensors, stages' contents.
#pragma once

#include <vector>

#include "analyzer/graph/graph.h"

namespace s2t {

enum class Doing : uint8_t {
  forward,
  backward,
  send_forward,
  recv_forward,
  send_backward,
  recv_backward
};

struct Deed {
  Doing doing = Doing::forward;
  int chunk = 0;
  int microbatch = 0;
};

// Either one forward or backward, or messages that are exchanged together.
struct Turn {
  std::vector<Deed> deeds;
};

struct PipelinePlace {
  int rank = 0, ranks = 1;  // along the pipeline axis
  int chunks = 1;
  int microbatches = 1;
  bool trains = true;
  bool batched = false;
  bool overlapped = false;   // interleaved: messages of a forward go before the backward (Megatron)
  bool warm_up_all = false;  // as many microbatches as ranks: all forwards first (Megatron 0.8)

  int stage(int chunk) const { return chunk * ranks + rank; }
  int stages() const { return ranks * chunks; }
};

// Fault for a schedule that is not known here.
std::vector<Turn> turns_of(const PipelineDecl& decl, const PipelinePlace& place);

// Without a pipeline: one microbatch after the other.
std::vector<Turn> turns_of_one_stage(int64_t microbatches, bool trains);

}  // namespace s2t
