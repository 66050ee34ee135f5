// What DeepSpeed's pipeline makes of a value between stages where tensor parallelism gives every rank
// the whole of it: each sends its part, and the receivers gather the parts. runtime/pipe/engine.py,
// is_pipe_partitioned; runtime/utils.py, PartitionedTensor.
#include <fmt/format.h>

#include <utility>

#include "analyzer/io/transformer/blocks.h"

namespace s2t {
namespace {

// The backward starts from the whole value, of which only a part was kept.
void gathered_for_backward(ModelBuilder& b, const std::string& part) {
  CallDecl call;
  call.name = part + ".again";
  call.module = b.module;
  call.op = Collective::all_gather;
  call.axes = {"tp"};
  call.dtype = b.p.dtype;
  call.shape = {b.p.seq * b.p.micro_batch, b.a.hidden / b.p.tp};
  call.when = CallDecl::When::backward;
  call.before = part;
  call.why = "the backward of a stage begins with what it sent, of which each rank kept its part";
  b.model.calls.push_back(std::move(call));
}

}  // namespace

std::string border(ModelBuilder& b, const std::string& x) {
  if (b.p.tp == 1 || !b.profile.is("borders", "cut")) return x;
  const int recomputed = std::exchange(b.recomputed, -1);
  b.module = fmt::format("border.{}", b.stage);
  --b.stage;
  const std::string part = b.placed(x, "part", {{"dp", "S(0)"}, {"tp", "S(1)"}});
  gathered_for_backward(b, part);
  ++b.stage;
  const std::string whole = b.placed(part, "whole", {{"dp", "S(0)"}, {"tp", "R"}});
  // What the stage reads of it is a leaf: its gradient is made whole there.
  OpDecl& leaf = b.add_op("identity", "leaf", {whole});
  leaf.modes["tp"] = "redundant";
  b.recomputed = recomputed;
  return leaf.name;
}

}  // namespace s2t
