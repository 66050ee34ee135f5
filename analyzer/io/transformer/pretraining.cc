// What BERT is trained on: the words that were hidden, and whether two sentences belong together.
// Megatron core models/bert (BertLMHead, Pooler), transformers BertForPreTraining.
#include "analyzer/io/transformer/blocks.h"

namespace s2t {
namespace {

std::string words(ModelBuilder& b, const std::string& x) {
  const std::string dense = duplicated(b, x, "dense", b.a.hidden, true);
  const std::string n = norm(b, b.op("gelu", "act", {dense}), "norm", b.a.hidden);
  const std::string bias = b.parameter("bias", {b.vocabulary()}, {{"tp", "S(0)"}});
  return b.op("bias_add", "scores", {logits_of(b, n), bias});
}

// From the first token of each sample.
std::string pooled(ModelBuilder& b, const std::string& x) {
  const std::string whole = b.op("identity", "tokens", {x});
  b.pin(whole, {{"tp", "R"}});
  const std::string samples = add_reshape(b, whole, "samples", "x[(p s b) d] -> y[s (p b) d]",
                                          {{"p", b.p.dp}, {"s", b.p.seq}, {"b", b.p.micro_batch}})
                                  .name;
  const std::string first = b.op("first", "first", {samples});
  return b.op("tanh", "pooled", {duplicated(b, first, "pooler", b.a.hidden, true)});
}

}  // namespace

void pretraining_heads(ModelBuilder& b, const std::string& x) {
  const std::string sample = pooled(b, x);
  const std::string scores = words(b, x);
  const std::string order = duplicated(b, sample, "sentences", 2, true);
  const std::string of_words = loss_of_tokens(b, scores, "loss.words");
  const std::string labels =
      b.integers("sentence_labels", {b.p.dp * b.p.micro_batch}, {{"dp", "S(0)"}});
  const std::string of_sentences = b.op("cross_entropy", "sentences", {order, labels});
  OpDecl& sum = b.add_op("add", "loss", {of_words, of_sentences});
  if (b.p.dp > 1) sum.modes["dp"] = "linear";  // every rank has its part of both means
  sum.name = b.model.loss = "loss";
  sum.outputs = {"loss"};
}

}  // namespace s2t
