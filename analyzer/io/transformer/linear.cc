#include "analyzer/io/transformer/blocks.h"

namespace s2t {

std::string norm(ModelBuilder& b, const std::string& x, const std::string& suffix, int64_t width) {
  constexpr std::string_view kOps[] = {"rms_norm", "layer_norm", "layer_norm_unshifted"};
  std::vector<std::string> inputs{x, b.parameter(suffix + ".weight", {width})};
  if (b.a.norm == Norm::layer) inputs.push_back(b.parameter(suffix + ".bias", {width}));
  return b.op(kOps[static_cast<size_t>(b.a.norm)], suffix, inputs);
}

std::string column_input(ModelBuilder& b, const std::string& x, const std::string& suffix) {
  if (!b.p.sequence_parallel()) return x;
  const std::string y = b.op("identity", suffix, {x});
  b.gathered_again(y);
  return y;
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
  if (!b.rows_stay_partial) b.pin(y, {{"tp", b.tokens()}});
  if (!bias) return y;
  const std::string shift = b.parameter(suffix + ".bias", {b.a.hidden});
  OpDecl& sum = b.add_op("bias_add", suffix, {y, shift});
  if (b.rows_stay_partial) sum.modes["tp"] = "linear";  // each rank adds its part of the bias
  return sum.name;
}

std::string duplicated(ModelBuilder& b, const std::string& x, const std::string& suffix,
                       int64_t out, bool bias) {
  const std::string w = b.parameter(suffix + ".weight", {out, b.a.hidden});
  if (!bias) return b.op("linear", suffix, {x, w});
  const std::string y = b.op("linear", suffix + ".product", {x, w});
  return b.op("bias_add", suffix, {y, b.parameter(suffix + ".bias", {out})});
}

std::string feed_forward(ModelBuilder& b, const std::string& n, const std::string& prefix,
                         int64_t ffn, bool bias) {
  std::vector<std::string> inputs;
  if (b.a.gated) inputs.push_back(column(b, n, prefix + "gate", ffn, bias));
  inputs.push_back(column(b, n, prefix + "up", ffn, bias));
  return row(b, b.op(b.activation(), prefix + "act", inputs), prefix + "down", ffn, bias);
}

std::string mlp(ModelBuilder& b, const std::string& n) {
  b.gathered_again(n);
  return feed_forward(b, n, "", b.a.ffn, b.a.mlp_bias);
}

OpDecl& add_reshape(ModelBuilder& b, const std::string& x, const std::string& suffix,
                    const char* rule, const std::map<std::string, int64_t>& sizes) {
  OpDecl& decl = b.add_op("reshape", suffix, {x});
  decl.attributes["rule"] = {std::string(rule), decl.pointer};
  decl.attributes["sizes"] = {sizes, decl.pointer};
  return decl;
}

}  // namespace s2t
