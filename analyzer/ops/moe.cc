#include "analyzer/ops/families.h"

namespace s2t {
namespace {

// Tokens s, experts e. `route` holds, per token and expert, the weight with which the expert is
// used (0: not routed). The buffer [e s m] is ragged: only routed rows exist, so its bytes come
// from the routing table of the model and never from this shape. Moving it from token-sharded to
// expert-sharded is the all-to-all.
constexpr AttributeDef kRouting[] = {
    {"routing", AttributeType::text, true, "row of the model's \"routing\""}};
constexpr AttributeDef kTaken[] = {
    {"routing", AttributeType::text, true, "row of the model's \"routing\""},
    {"gathered", AttributeType::boolean, false,
     "the tokens were gathered before; their gradient goes back as it comes, a part on each rank"}};
constexpr CompositeStep kRouter[] = {{"linear", "x w", "logits"}, {"softmax", "logits", "route"}};

constexpr OpDef kOps[] = {
    {.name = "moe_router",
     .family = "moe",
     .rule = "x[* m] w[e m] -> route[* e]",
     .steps = kRouter,
     .summary = "routing probabilities: softmax(x w^T)"},
    {.name = "moe_dispatch",
     .family = "moe",
     .rule = "x[s m] route[s e] -> buf[e s m]",
     .linear = "{x}",
     .saved = "x<-route",
     .stop = "route",
     .attributes = kTaken,
     .summary = "copies each token to the experts it is routed to"},
    {.name = "moe_expert",
     .family = "moe",
     .rule = "buf[e s k] w[e n k] -> y[e s n]",
     .linear = "{buf} {w}",
     .saved = "buf<-w w<-buf",
     .summary = "one linear per expert"},
    {.name = "moe_bias",
     .family = "moe",
     .rule = "buf[e s n] b[e n] -> y[e s n]",
     .linear = "{buf b}",
     .summary = "adds one bias per expert and feature"},
    {.name = "moe_combine",
     .family = "moe",
     .rule = "buf[e s m] route[s e] -> y[s m]",
     .linear = "{buf} {route}",
     .saved = "buf<-route route<-buf",
     .attributes = kRouting,
     .summary = "weighted sum of the experts' rows, back in token order"},
    {.name = "moe_probs",
     .family = "moe",
     .rule = "route[s e] -> probs[e s]",
     .linear = "{route}",
     .attributes = kTaken,
     .summary = "the weights of routed rows, to travel beside them"},
    {.name = "moe_weigh",
     .family = "moe",
     .rule = "buf[e s m] probs[e s] -> y[e s m]",
     .linear = "{buf} {probs}",
     .saved = "buf<-probs probs<-buf",
     .summary = "rows times their weights, where the experts are"},
    {.name = "moe_collect",
     .family = "moe",
     .rule = "buf[e s m] route[s e] -> y[s m]",
     .linear = "{buf}",
     .saved = "buf<-route",
     .stop = "route",
     .attributes = kRouting,
     .summary = "sum of the experts' rows, weighed before, back in token order"},
};

}  // namespace

std::span<const OpDef> moe_ops() {
  return kOps;
}

}  // namespace s2t
