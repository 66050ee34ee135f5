#include "analyzer/io/transformer/blocks.h"

namespace s2t {
namespace {

using Sizes = std::map<std::string, int64_t>;

std::string reshaped(ModelBuilder& b, const std::string& x, const std::string& suffix,
                     const char* rule, int64_t heads) {
  OpDecl& decl = b.add_op("reshape", suffix, {x});
  decl.attributes["rule"] = {std::string(rule), decl.pointer};
  decl.attributes["sizes"] = {
      Sizes{{"p", b.p.dp}, {"s", b.p.seq}, {"b", b.p.micro_batch}, {"h", heads}}, decl.pointer};
  return decl.name;
}

std::string heads_of(ModelBuilder& b, const std::string& n, const std::string& suffix,
                     int64_t heads, bool positioned) {
  const std::string x = column(b, n, suffix, heads * b.a.head_dim, b.a.qkv_bias);
  std::string y = reshaped(b, x, suffix + ".heads", "x[(p s b) (h d)] -> y[(p b) h s d]", heads);
  if (positioned && b.a.qk_norm == QkNorm::per_head) y = norm(b, y, suffix + ".norm", b.a.head_dim);
  if (positioned && b.a.positions == Positions::rotary) y = b.op("rope", suffix + ".rope", {y});
  return y;
}

}  // namespace

std::string attention(ModelBuilder& b, const std::string& x) {
  const std::string n = input_norm(b, x, "norm");
  const std::string q = heads_of(b, n, "q", b.a.heads, true);
  const std::string k = heads_of(b, n, "k", b.a.kv_heads, true);
  const std::string v = heads_of(b, n, "v", b.a.kv_heads, false);
  OpDecl& decl = b.add_op("attention", "core", {q, k, v});
  decl.attributes["causal"] = {true, decl.pointer};
  const std::string o =
      reshaped(b, decl.name, "merge", "x[(p b) h s d] -> y[(p s b) (h d)]", b.a.heads);
  return b.op("add", "out", {x, row(b, o, "proj", b.a.heads * b.a.head_dim, b.a.out_bias)});
}

}  // namespace s2t
