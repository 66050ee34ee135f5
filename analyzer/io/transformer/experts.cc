#include "analyzer/io/transformer/blocks.h"

namespace s2t {
namespace {

std::string expert(ModelBuilder& b, const std::string& x, const std::string& suffix, int64_t out,
                   int64_t in, const char* split) {
  const Experts& e = *b.a.experts;
  const std::string w =
      b.parameter(suffix + ".weight", {e.experts, out, in}, {{"ep", "S(0)"}, {"etp", split}});
  const std::string y = b.op("moe_expert", e.bias ? suffix + ".product" : suffix, {x, w});
  if (!e.bias) return y;
  return b.op("moe_bias", suffix,
              {y, b.parameter(suffix + ".bias", {e.experts, out}, {{"ep", "S(0)"}})});
}

std::string routed(ModelBuilder& b, std::string_view name, const std::string& suffix,
                   std::vector<std::string> inputs) {
  OpDecl& decl = b.add_op(name, suffix, std::move(inputs));
  decl.attributes["routing"] = {std::string("balanced"), decl.pointer};
  return decl.name;
}

// Softmax of a linear; with a bias in between.
std::string router(ModelBuilder& b, const std::string& n) {
  const int64_t experts = b.a.experts->experts;
  if (b.a.experts->router_bias)
    return b.op("softmax", "router.probs", {duplicated(b, n, "router", experts, true)});
  return b.op("moe_router", "router", {n, b.parameter("router.weight", {experts, b.a.hidden})});
}

// Rows times their weights, which travelled as the rows did.
std::string weighed(ModelBuilder& b, const std::string& rows, const std::string& route) {
  return b.op("moe_weigh", "experts.weighed", {rows, routed(b, "moe_probs", "probs", {route})});
}

// Those that every token goes to, scaled by a gate of their own if they have one.
std::string shared(ModelBuilder& b, const std::string& n) {
  const Experts& e = *b.a.experts;
  const std::string y = feed_forward(b, n, "shared.", e.shared_ffn, false);
  if (!e.shared_gate) return y;
  const std::string score =
      b.op("sigmoid", "shared.score", {duplicated(b, n, "shared.scale", 1, false)});
  OpDecl& scaled = b.add_op("einsum", "shared.scaled", {y, score});
  scaled.attributes["rule"] = {std::string("x[t d] g[t o] -> y[t d]"), scaled.pointer};
  return scaled.name;
}

// One table for all layers.
void declare_routing(ModelBuilder& b) {
  if (!b.model.routing.empty()) return;
  RoutingDecl& routing = b.model.routing.emplace_back();
  routing.name = "balanced";
  routing.axis = std::string("ep");  // GCC 12 takes the literal for uninitialised
  routing.experts = b.a.experts->experts;
  routing.top_k = b.a.experts->top_k;
  if (const double factor = b.profile.real("expert_capacity"); factor > 0) {
    routing.capacity_factor = factor;
    routing.pad_to_capacity = true;
  }
  routing.pointer = "--ep";
}

CallDecl counts(const ModelBuilder& b, std::string name, Collective op,
                std::vector<std::string> axes, std::string why) {
  CallDecl call;
  call.name = b.module + "." + std::move(name);
  call.module = b.module;
  call.op = op;
  call.axes = std::move(axes);
  call.dtype = DType::i64;
  call.shape = {b.a.experts->experts};
  call.when = CallDecl::When::forward;
  call.before = b.module + ".dispatch";
  call.why = std::move(why);
  return call;
}

// How many tokens each expert gets, for the balancing loss and for the exchange.
void state_calls(ModelBuilder& b) {
  if (b.profile.is("moe_balancing", "aux_loss"))
    b.model.calls.push_back(counts(b, "balance", Collective::all_reduce, {"cp", "tp"},
                                   "the balancing loss counts the tokens per expert of all ranks "
                                   "that share a sample"));
  if (b.profile.is("moe_counts", "all_gather"))
    b.model.calls.push_back(counts(b, "counts", Collective::all_gather, {"ep", "etp"},
                                   "every rank tells how many rows it has for each expert, so that "
                                   "the others know what they receive"));
}

}  // namespace

std::string experts(ModelBuilder& b, const std::string& n) {
  const Experts& e = *b.a.experts;
  declare_routing(b);
  b.gathered_again(n);
  const std::string route = router(b, n);
  state_calls(b);
  const std::string rows = routed(b, "moe_dispatch", "dispatch", {n, route});
  const bool probs_travel = b.profile.is("moe_probs", "all_to_all");
  const std::string gate = expert(b, rows, "experts.gate", e.ffn, b.a.hidden, "S(1)");
  const std::string up = expert(b, rows, "experts.up", e.ffn, b.a.hidden, "S(1)");
  std::string act = b.op(b.activation(), "experts.act", {gate, up});
  if (probs_travel && !e.bias) act = weighed(b, act, route);
  std::string down = expert(b, act, "experts.down", b.a.hidden, e.ffn, "S(2)");
  if (!e.bias) b.pin(down, {{"etp", "S(1)"}});  // with a bias experts are whole
  if (probs_travel && e.bias) down = weighed(b, down, route);
  std::string y = routed(b, probs_travel ? "moe_collect" : "moe_combine", "combine", {down, route});
  return e.shared_ffn > 0 ? b.op("add", "sum", {y, shared(b, n)}) : y;
}

}  // namespace s2t
