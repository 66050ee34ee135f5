#include "analyzer/ops/families.h"

namespace s2t {
namespace {

constexpr AttributeDef kScale[] = {{"factor", AttributeType::number, true, "multiplier"}};
constexpr AttributeDef kDropout[] = {
    {"p", AttributeType::number, false, "drop probability, default 0.1"}};
constexpr AttributeDef kCast[] = {
    {"dtype", AttributeType::text, true, "element type of the result"}};

constexpr OpDef kOps[] = {
    {.name = "add",
     .family = "elementwise",
     .rule = "a[*] b[*] -> y[*]",
     .linear = "{a b}",
     .summary = "a + b (residual)"},
    {.name = "sub",
     .family = "elementwise",
     .rule = "a[*] b[*] -> y[*]",
     .linear = "{a b}",
     .summary = "a - b"},
    {.name = "mul",
     .family = "elementwise",
     .rule = "a[*] b[*] -> y[*]",
     .linear = "{a} {b}",
     .saved = "a<-b b<-a",
     .summary = "a * b"},
    {.name = "scale",
     .family = "elementwise",
     .rule = "x[*] -> y[*]",
     .linear = "{x}",
     .attributes = kScale,
     .summary = "x times a constant"},
    {.name = "identity",
     .family = "elementwise",
     .rule = "x[*] -> y[*]",
     .linear = "{x}",
     .summary = "x"},
    {.name = "cast",
     .family = "elementwise",
     .rule = "x[*] -> y[*]",
     .linear = "{x}",
     .attributes = kCast,
     .summary = "x in another element type"},
    {.name = "dropout",
     .family = "elementwise",
     .rule = "x[*] -> y[*]",
     .linear = "{x}",
     .attributes = kDropout,
     .summary = "x with elements dropped"},
    {.name = "gelu",
     .family = "elementwise",
     .rule = "x[*] -> y[*]",
     .saved = "x<-x",
     .summary = "GELU (erf)"},
    {.name = "relu",
     .family = "elementwise",
     .rule = "x[*] -> y[*]",
     .saved = "x<-x",
     .summary = "max(x, 0)"},
    {.name = "silu",
     .family = "elementwise",
     .rule = "x[*] -> y[*]",
     .saved = "x<-x",
     .summary = "x sigmoid(x)"},
    {.name = "gelu_tanh",
     .family = "elementwise",
     .rule = "x[*] -> y[*]",
     .saved = "x<-x",
     .summary = "GELU (tanh approximation)"},
    {.name = "relu_squared",
     .family = "elementwise",
     .rule = "x[*] -> y[*]",
     .saved = "x<-x",
     .summary = "max(x, 0)^2"},
    {.name = "sigmoid",
     .family = "elementwise",
     .rule = "x[*] -> y[*]",
     .saved = "x<-x",
     .summary = "1 / (1 + exp(-x))"},
    {.name = "tanh",
     .family = "elementwise",
     .rule = "x[*] -> y[*]",
     .saved = "x<-x",
     .summary = "hyperbolic tangent"},
    {.name = "swiglu",
     .family = "elementwise",
     .rule = "gate[*] up[*] -> y[*]",
     .linear = "{up}",
     .saved = "gate<-gate,up up<-gate",
     .summary = "silu(gate) * up"},
    {.name = "geglu",
     .family = "elementwise",
     .rule = "gate[*] up[*] -> y[*]",
     .linear = "{up}",
     .saved = "gate<-gate,up up<-gate",
     .summary = "gelu(gate) * up"},
};

}  // namespace

std::span<const OpDef> elementwise_ops() {
  return kOps;
}

}  // namespace s2t
