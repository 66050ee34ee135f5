#include "analyzer/io/transformer/blocks.h"

namespace s2t {
namespace {

// Of each expert: replicated over edp, an axis of experts, even if no other axis of experts splits
// it; or, where it is an ordinary parameter, placed on the dense axes. `split`: over its tensor
// parallel ranks.
std::string of_experts(ModelBuilder& b, const std::string& suffix, std::vector<int64_t> shape,
                       const char* split) {
  shape.insert(shape.begin(), b.a.experts->experts);
  Placements apart{{"ep", "S(0)"}, {"edp", "R"}}, ordinary;
  if (*split) apart.emplace_back(b.expert_tp_axis(), split), ordinary.emplace_back("tp", split);
  return b.parameter(suffix, shape, b.experts_apart() ? apart : ordinary);
}

std::string expert(ModelBuilder& b, const std::string& x, const std::string& suffix, int64_t out,
                   int64_t in, const char* split) {
  const bool bias = b.a.experts->bias;
  const std::string w = of_experts(b, suffix + ".weight", {out, in}, split);
  const std::string y = b.op("moe_expert", bias ? suffix + ".product" : suffix, {x, w});
  return bias ? b.op("moe_bias", suffix, {y, of_experts(b, suffix + ".bias", {out}, "")}) : y;
}

std::string routed(ModelBuilder& b, std::string_view name, const std::string& suffix,
                   std::vector<std::string> inputs) {
  OpDecl& decl = b.add_op(name, suffix, std::move(inputs));
  decl.attributes["routing"] = {std::string("balanced"), decl.pointer};
  return decl.name;
}

std::string cast(ModelBuilder& b, const std::string& x, const std::string& suffix, DType to) {
  OpDecl& decl = b.add_op("cast", suffix, {x});
  decl.attributes["dtype"] = {std::string(info(to).name), decl.pointer};
  return decl.name;
}

// Weights of rows, and what is reduced with them, have a type of their own.
bool routes_in_f32(const ModelBuilder& b) {
  return b.profile.is("router_dtype", "float32") && b.p.dtype != DType::f32;
}

// Softmax of a linear; with a bias in between.
std::string router(ModelBuilder& b, const std::string& n) {
  const int64_t experts = b.a.experts->experts;
  const std::string probs =
      b.a.experts->router_bias
          ? b.op("softmax", "router.probs", {duplicated(b, n, "router", experts, true)})
          : b.op("moe_router", "router", {n, b.parameter("router.weight", {experts, b.a.hidden})});
  return routes_in_f32(b) ? cast(b, probs, "router.wide", DType::f32) : probs;
}

// Those that every token goes to, of their gathered input n; scaled by a gate of their own if they
// have one.
std::string shared_of(ModelBuilder& b, const std::string& n, const std::string& gathered) {
  const Experts& e = *b.a.experts;
  const std::string y = feed_forward(b, gathered, "shared.", e.shared_ffn, false);
  if (!e.shared_gate) return y;
  const std::string score =
      b.op("sigmoid", "shared.score", {duplicated(b, n, "shared.scale", 1, false)});
  OpDecl& scaled = b.add_op("einsum", "shared.scaled", {y, score});
  scaled.attributes["rule"] = {std::string("x[t d] g[t o] -> y[t d]"), scaled.pointer};
  return scaled.name;
}

// When they run: before the router, between the dispatch of rows and the experts, behind everything
// (unless stated), or on a stream of their own beside the exchanges. Megatron moved them twice.
bool shared_run(const ModelBuilder& b, std::string_view when) {
  if (b.a.experts->shared_ffn == 0) return false;
  const std::string_view stated = b.profile["shared_experts"];
  return (stated.empty() ? "behind" : stated) == when;
}

std::string shared(ModelBuilder& b, const std::string& n) {
  return shared_of(b, n, column_input(b, n, "shared.in"));
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
    // deepspeed/moe/layer.py, min_capacity.
    if (b.profile.is("gradient_sync", "zero")) routing.least_capacity = 4;
    routing.pad_to_capacity = true;
  }
  routing.pointer = "--ep";
}

// --- what is sent besides ------------------------------------------------------------------------

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
  call.why = std::move(why);
  return call;
}

// Tokens per expert that a balancing loss adds up: of a sample, of each sample of the microbatch, or
// of all ranks.
struct Balancing {
  std::string_view value;
  bool per_sample, everywhere;
};
constexpr Balancing kBalancing[] = {
    {"aux_loss", false, false}, {"seq_aux_loss", true, false}, {"global_aux_loss", false, true}};

// Megatron core 0.8 with tensor parallelism: ranks of tp exchange their tokens for parts of the hidden
// dim of all their tokens, and rows travel in parts.
bool hidden_over_tp(const ModelBuilder& b) {
  return b.p.tp > 1 && b.expert_tp_axis() == "tp";
}

// `before`: the op with which the exchange begins. Where ranks of tp have gathered their logits, each
// knows the tokens of all of them (0.8, token_dispatcher.py: the group of the sum is that of cp).
void balance(ModelBuilder& b, const std::string& before) {
  for (const Balancing& row : kBalancing) {
    if (!b.profile.is("moe_balancing", row.value)) continue;
    std::vector<std::string> axes{"cp"};
    if (!hidden_over_tp(b)) axes.emplace_back("tp");
    if (row.everywhere) axes.emplace_back("dp");
    CallDecl call = counts(b, "balance", Collective::all_reduce, axes,
                           row.everywhere ? "the balancing loss counts the tokens per expert of "
                                            "all ranks"
                                          : "the balancing loss counts the tokens per expert of "
                                            "all ranks that share a sample");
    if (row.per_sample) call.shape[0] *= b.p.micro_batch;
    call.before = before;
    b.model.calls.push_back(std::move(call));
  }
}

// Every expert gets exactly its capacity: nobody needs to be told.
bool padded(const ModelBuilder& b) {
  return b.profile.real("expert_capacity") > 0;
}

// --- dispatchers ---------------------------------------------------------------------------------

// What the experts get, the weights of these rows ("" if they stay behind), and the routing by which
// the results go back.
struct Rows {
  std::string rows, weights, route;
};

// Rows travel to the ranks of their experts, and all parts of an expert get the rows of all: the
// rows and their weights are exchanged before either is gathered.
Rows exchanged_rows(ModelBuilder& b, const std::string& n, const std::string& route) {
  const bool by_hidden = hidden_over_tp(b);
  const bool shared_first = b.p.tp > 1 && shared_run(b, "overlapped");
  const std::string first = b.module + (shared_first ? ".shared.in.all"
                                        : by_hidden  ? ".hidden"
                                                     : ".dispatch");
  balance(b, first);
  const auto tell = [&](Collective op, std::vector<std::string> axes, const char* why) {
    CallDecl& call = b.model.calls.emplace_back(counts(b, "counts", op, std::move(axes), why));
    call.before = first;
  };
  if (b.profile.is("moe_counts", "all_gather") && !padded(b))
    tell(Collective::all_gather, {"ep", "etp"},
         "every rank tells how many rows it has for each expert, so that the others know what they "
         "receive");
  if (b.profile.is("moe_counts", "all_to_all"))
    tell(Collective::all_to_all, {"ep"},
         "every rank tells the others how many rows it has for each of their experts");
  const std::string x =
      by_hidden ? b.placed(b.op("identity", "own", {n}), "hidden", {{"tp", "S(1)"}}) : n;
  Rows r{routed(b, "moe_dispatch", "dispatch", {x, route}), "", route};
  if (by_hidden) {
    if (b.p.ep > 1) r.rows = b.placed(r.rows, "rows", {{"ep", "S(0)"}});
    r.rows = b.placed(r.rows, "rows.whole", {{"tp", "R"}});
    return r;
  }
  if (b.profile.is("moe_probs", "all_to_all")) r.weights = routed(b, "moe_probs", "probs", {route});
  const bool apart = shared_run(b, "between");  // from what follows
  if (b.p.ep == 1 || (b.p.expert_tp() == 1 && !apart)) return r;
  r.rows = b.placed(r.rows, "rows", {{"ep", "S(0)"}});
  if (!r.weights.empty()) r.weights = b.placed(r.weights, "probs.rows", {{"ep", "S(0)"}});
  return r;
}

// The tokens of the ranks that share the experts, on each of them. In the backward each has a part
// of the gradient, which is reduced there and then.
std::string gathered(ModelBuilder& b, const std::string& x, const std::string& suffix,
                     const Placements& everywhere) {
  const std::string local = b.op("identity", suffix, {x});
  const std::string all = b.placed(local, suffix + ".all", everywhere);
  b.model.ops.back().attributes["gathered"] = {true, all};
  return all;
}

std::string taken(ModelBuilder& b, std::string_view op, const std::string& suffix,
                  std::vector<std::string> inputs) {
  const std::string name = routed(b, op, suffix, std::move(inputs));
  OpDecl& decl = b.model.ops.back();
  if (b.p.ep > 1) decl.modes["ep"] = "split(e)";
  decl.attributes["gathered"] = {true, decl.pointer};
  return name;
}

// Every rank gets all tokens with all their weights, and takes the rows of its experts.
Rows gathered_rows(ModelBuilder& b, const std::string& n, const std::string& route) {
  const bool alone = b.p.ep * b.p.expert_tp() == 1;
  const std::string first = b.module + (alone ? ".dispatch" : ".weights");
  balance(b, first);
  CallDecl map = counts(b, "map", Collective::all_gather, {"ep", "etp"},
                        "every rank needs to know which experts the tokens of the others go to");
  map.dtype = DType::boolean;
  map.shape = {b.p.micro_batch * b.p.seq / (b.p.cp * b.p.tp), b.a.experts->experts};
  map.before = first;
  b.model.calls.push_back(std::move(map));
  const Placements everywhere{{"ep", "R"}, {"etp", "R"}};
  const std::string weights = alone ? route : gathered(b, route, "weights", everywhere);
  const std::string tokens = alone ? n : gathered(b, n, "tokens", everywhere);
  return {taken(b, "moe_dispatch", "dispatch", {tokens, weights}),
          taken(b, "moe_probs", "probs", {weights}), weights};
}

// Back in the order of the tokens, each rank with its own.
std::string combined(ModelBuilder& b, const std::string& down, const Rows& r, bool gathers) {
  std::string y =
      routed(b, r.weights.empty() ? "moe_combine" : "moe_collect", "combine", {down, r.route});
  if (!gathers) return y;
  if (b.p.expert_tp() > 1) b.model.ops.back().modes["etp"] = "linear";
  const bool wide = routes_in_f32(b) && b.p.ep * b.p.expert_tp() > 1;
  if (wide) {
    y = cast(b, y, "combine.wide", DType::f32);
    for (const char* axis : {"ep", "etp"}) b.linear_over(axis);
  }
  b.pin(y, {{"ep", "S(0)"}, {"etp", "S(0)"}});
  return wide ? cast(b, y, "combine.narrow", b.p.dtype) : y;
}

// The terms of the ranks of an expert are added up in the type of the weights.
std::string added_up(ModelBuilder& b, std::string down) {
  const bool wide = routes_in_f32(b) && b.p.expert_tp() > 1;
  if (wide) {
    down = cast(b, down, "experts.wide", DType::f32);
    b.linear_over("etp");
  }
  b.pin(down, hidden_over_tp(b) ? Placements{{"tp", "S(2)"}} : Placements{{"etp", "S(1)"}});
  return wide ? cast(b, down, "experts.narrow", b.p.dtype) : down;
}

// What the routed experts make of n, whose rows have been dispatched.
std::string routed_experts(ModelBuilder& b, const Rows& r, bool gathers) {
  const Experts& e = *b.a.experts;
  const auto weighed = [&](const std::string& rows, bool here) {
    if (!here || r.weights.empty()) return rows;
    if (!routes_in_f32(b)) return b.op("moe_weigh", "experts.weighed", {rows, r.weights});
    const std::string wide = cast(b, rows, "experts.act.wide", DType::f32);
    return cast(b, b.op("moe_weigh", "experts.weighed.wide", {wide, r.weights}), "experts.weighed",
                b.p.dtype);
  };
  const std::string gate = expert(b, r.rows, "experts.gate", e.ffn, b.a.hidden, "S(1)");
  const std::string up = expert(b, r.rows, "experts.up", e.ffn, b.a.hidden, "S(1)");
  const std::string act = weighed(b.op(b.activation(), "experts.act", {gate, up}), !e.bias);
  std::string down = expert(b, act, "experts.down", b.a.hidden, e.ffn, "S(2)");
  if (!e.bias && !gathers) down = added_up(b, down);  // with a bias experts are whole
  const std::string y = combined(b, weighed(down, e.bias), r, gathers);
  if (hidden_over_tp(b)) b.pin(y, {{"tp", "S(0)"}});
  return y;
}

}  // namespace

std::string experts(ModelBuilder& b, const std::string& n) {
  declare_routing(b);
  std::string own;
  if (shared_run(b, "before")) own = shared(b, n);
  std::string route = router(b, n);
  if (hidden_over_tp(b)) route = gathered(b, route, "weights", {{"tp", "R"}});
  // Beside the exchanges: gathered by itself, once, as its linears communicate nothing.
  const bool beside = shared_run(b, "overlapped");
  std::string whole = n;
  if (beside && b.p.tp > 1)
    whole = b.placed(b.op("identity", "shared.in", {n}), "shared.in.all", {{"tp", "R"}});
  const bool gathers = b.profile.is("moe_dispatcher", "allgather");
  const Rows r = gathers ? gathered_rows(b, n, route) : exchanged_rows(b, n, route);
  if (shared_run(b, "between")) own = shared(b, n);
  const std::string y = routed_experts(b, r, gathers);
  if (beside) own = shared_of(b, n, whole);
  if (shared_run(b, "behind")) own = shared(b, n);
  return own.empty() ? y : b.op("add", "sum", {y, own});
}

}  // namespace s2t
