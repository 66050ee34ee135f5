#include "analyzer/io/transformer/blocks.h"

namespace s2t {

std::string norm(ModelBuilder& b, const std::string& x, const std::string& suffix, int64_t width) {
  std::vector<std::string> inputs{x, b.parameter(suffix + ".weight", {width})};
  if (b.a.norm == Norm::layer) inputs.push_back(b.parameter(suffix + ".bias", {width}));
  return b.op(b.a.norm == Norm::layer ? "layer_norm" : "rms_norm", suffix, inputs);
}

std::string input_norm(ModelBuilder& b, const std::string& x, const std::string& suffix) {
  const std::string n = norm(b, x, suffix, b.a.hidden);
  b.gathered_again(n);
  return n;
}

std::string column(ModelBuilder& b, const std::string& x, const std::string& suffix, int64_t out,
                   bool bias) {
  return column_from(b, x, suffix, out, b.a.hidden, bias);
}

std::string column_from(ModelBuilder& b, const std::string& x, const std::string& suffix,
                        int64_t out, int64_t in, bool bias) {
  const std::string w = b.parameter(suffix + ".weight", {out, in}, {{"tp", "S(0)"}});
  if (!bias) return b.op("linear", suffix, {x, w});
  const std::string y = b.op("linear", suffix + ".product", {x, w});
  return b.op("bias_add", suffix, {y, b.parameter(suffix + ".bias", {out}, {{"tp", "S(0)"}})});
}

std::string row(ModelBuilder& b, const std::string& x, const std::string& suffix, int64_t in,
                bool bias) {
  const std::string w = b.parameter(suffix + ".weight", {b.a.hidden, in}, {{"tp", "S(1)"}});
  const std::string y = b.op("linear", bias ? suffix + ".product" : suffix, {x, w});
  b.pin(y, {{"tp", b.tokens()}});
  if (!bias) return y;
  return b.op("bias_add", suffix, {y, b.parameter(suffix + ".bias", {b.a.hidden})});
}

std::string feed_forward(ModelBuilder& b, const std::string& n, const std::string& prefix,
                         int64_t ffn, bool bias) {
  const std::string up = column(b, n, prefix + "up", ffn, bias);
  const std::string act =
      b.a.gated ? b.op("swiglu", prefix + "act", {column(b, n, prefix + "gate", ffn, bias), up})
                : b.op("gelu", prefix + "act", {up});
  return row(b, act, prefix + "down", ffn, bias);
}

std::string mlp(ModelBuilder& b, const std::string& x) {
  const std::string n = input_norm(b, x, "norm");
  return b.op("add", "out", {x, feed_forward(b, n, "", b.a.ffn, b.a.mlp_bias)});
}

}  // namespace s2t
