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

// A table of positions, and one of segments, are added to whole tokens; then these are split.
std::string with_positions(ModelBuilder& b, const std::string& tokens) {
  const bool learned = b.a.positions == Positions::learned;
  b.pin(tokens, {{"tp", learned || b.a.token_types > 0 ? "R" : b.tokens()}});
  std::string sum = tokens;
  const auto add = [&](const char* name, const char* ids, const char* suffix, int64_t rows) {
    const std::string table = b.parameter(std::string(name) + ".weight", {rows, b.a.hidden});
    sum = b.op("add", suffix, {sum, b.op("embedding", name, {b.ids(ids), table})});
  };
  if (b.a.token_types > 0) add("segments", "segment_ids", "sum.segments", b.a.token_types);
  if (learned) add("positions", "position_ids", "sum", b.a.position_rows);
  if (sum != tokens && b.p.sequence_parallel()) b.pin(sum, {{"tp", "S(0)"}});
  return sum;
}

}  // namespace

std::string embedding(ModelBuilder& b) {
  b.module = "embed";
  const std::string ids = b.ids("ids");
  b.table = b.parameter("weight", {b.vocabulary(), b.a.hidden}, {{"tp", "S(0)"}});
  const std::string e = b.op("embedding", "tokens", {ids, b.table});
  const std::string x = with_positions(b, e);
  return b.a.embedding_norm ? norm(b, x, "norm", b.a.hidden) : x;
}

std::string embedding_again(ModelBuilder& b) {
  b.module = "embed";
  const std::string e = b.op("embedding", "decoder_tokens", {b.ids("decoder_ids"), b.table});
  b.pin(e, {{"tp", b.tokens()}});
  return e;
}

std::string logits_of(ModelBuilder& b, const std::string& n) {
  b.gathered_again(n);
  const std::string w =
      b.a.tied ? b.table : b.parameter("weight", {b.vocabulary(), b.a.hidden}, {{"tp", "S(0)"}});
  if (b.a.tied) b.read_again(w);
  const std::string logits = b.op("linear", "logits", {n, w});
  if (!b.a.soft_cap) return logits;
  return b.op("tanh", "logits.capped", {logits});  // between two scales
}

std::string loss_of_tokens(ModelBuilder& b, const std::string& logits, const std::string& name) {
  b.module = "loss";
  if (b.profile.is("loss_parallel", "off")) b.pin(logits, {{"tp", "R"}});
  const std::string labels = b.ids("labels");
  const bool fused = b.profile.is("cross_entropy", "fused");
  const bool target_first = b.profile.is("loss_order", "target_first");
  OpDecl& loss = fused ? b.add_op("mean", "loss", {fused_rows(b, logits, labels)})
                       : b.add_op(target_first ? "cross_entropy_target_first" : "cross_entropy",
                                  "loss", {logits, labels});
  loss.name = name;
  loss.outputs = {name};
  return name;
}

void head(ModelBuilder& b, const std::string& x) {
  b.module = "head";
  if (b.a.pretraining_heads) return pretraining_heads(b, x);
  const std::string n = b.a.final_norm ? norm(b, x, "norm", b.a.hidden) : x;
  if (!b.profile.is("loss_logging", "microbatch")) {
    b.model.loss = loss_of_tokens(b, logits_of(b, n), "loss");
    return;
  }
  // What is sent to print it follows all that the loss itself needs.
  OpDecl& loss = b.add_op("identity", "loss", {loss_of_tokens(b, logits_of(b, n), "loss.tokens")});
  loss.name = b.model.loss = "loss";
  loss.outputs = {"loss"};
  if (b.p.dp > 1) loss.modes["dp"] = "linear";  // every rank has its part
  if (b.p.cp > 1) loss.modes["cp"] = "linear";
}

}  // namespace s2t
