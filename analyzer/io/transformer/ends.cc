// Both ends of a model: the embedding, and the output layer with the loss.
#include "analyzer/io/transformer/blocks.h"

namespace s2t {
namespace {

// One number per token as a column, and back; a partial sum stays one.
std::string regrouped(ModelBuilder& b, const std::string& x, const std::string& suffix,
                      const char* rule, const char* mode) {
  OpDecl& decl = b.add_op("reshape", suffix, {x});
  decl.attributes["rule"] = {std::string(rule), decl.pointer};
  decl.attributes["sizes"] = {std::map<std::string, int64_t>{{"o", 1}}, decl.pointer};
  if (b.p.tp > 1 && *mode) decl.modes["tp"] = mode;
  return decl.name;
}

// The cross-entropy of each token, with the sums of exponentials and the logits of the targets
// reduced in one call.
std::string fused_rows(ModelBuilder& b, const std::string& logits, const std::string& labels) {
  const std::string max = b.op("ce_max", "max", {logits});
  const std::string sum = b.op("ce_sum", "sum", {b.op("ce_exp", "exp", {logits, max})});
  const std::string target = b.op("ce_pick", "target", {logits, labels});
  OpDecl& pair = b.add_op("concat", "pair",
                          {regrouped(b, sum, "sum.column", "x[t] -> y[t o]", "linear"),
                           regrouped(b, target, "target.column", "x[t] -> y[t o]", "linear")});
  if (b.p.tp > 1) pair.modes["tp"] = "linear";
  const std::string whole = pair.name;
  b.pin(whole, {{"tp", "R"}});
  OpDecl& parts = b.add_op("split", "parts", {whole});
  parts.outputs = {"loss.sum.part", "loss.target.part"};
  return b.op("ce_rows", "rows",
              {regrouped(b, "loss.sum.part", "sum.row", "x[t o] -> y[t]", ""), max,
               regrouped(b, "loss.target.part", "target.row", "x[t o] -> y[t]", "")});
}

}  // namespace

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
  const std::string labels = b.ids("labels");
  const bool fused = b.profile.is("cross_entropy", "fused");
  const bool target_first = b.profile.is("loss_order", "target_first");
  OpDecl& loss = fused ? b.add_op("mean", "loss", {fused_rows(b, logits, labels)})
                       : b.add_op(target_first ? "cross_entropy_target_first" : "cross_entropy",
                                  "loss", {logits, labels});
  loss.name = "loss";
  loss.outputs = {"loss"};
  b.model.loss = "loss";
}

}  // namespace s2t
