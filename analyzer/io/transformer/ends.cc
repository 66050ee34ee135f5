// Both ends of a model: the embedding, and the output layer with the loss.
#include "analyzer/io/transformer/blocks.h"

namespace s2t {

std::string embedding(ModelBuilder& b) {
  b.module = "embed";
  const std::string ids = b.ids("ids");
  b.table = b.parameter("weight", {b.vocabulary(), b.a.hidden}, {{"tp", "S(0)"}});
  const std::string e = b.op("embedding", "tokens", {ids, b.table});
  if (b.a.positions != Positions::learned) {
    b.pin(e, {{"tp", b.tokens()}});
    return e;
  }
  b.pin(e, {{"tp", "R"}});  // the positions are added to whole tokens, then these are split
  const std::string rows = b.parameter("positions.weight", {b.a.position_rows, b.a.hidden});
  const std::string positions = b.op("embedding", "positions", {b.ids("position_ids"), rows});
  const std::string sum = b.op("add", "sum", {e, positions});
  if (b.p.sequence_parallel()) b.pin(sum, {{"tp", "S(0)"}});
  return sum;
}

void head(ModelBuilder& b, const std::string& x) {
  b.module = "head";
  const std::string n = input_norm(b, x, "norm");
  const std::string w =
      b.a.tied ? b.table : b.parameter("weight", {b.vocabulary(), b.a.hidden}, {{"tp", "S(0)"}});
  const std::string logits = b.op("linear", "logits", {n, w});
  b.module = "loss";
  const bool target_first = b.profile["loss_order"] == "target_first";
  OpDecl& loss = b.add_op(target_first ? "cross_entropy_target_first" : "cross_entropy", "loss",
                          {logits, b.ids("labels")});
  loss.name = "loss";
  loss.outputs = {"loss"};
  b.model.loss = "loss";
}

}  // namespace s2t
