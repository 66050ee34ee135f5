#include "analyzer/ops/families.h"

namespace s2t {
namespace {

// Shape ops are index lines too: a dim may be regrouped where the factor view allows, e.g.
// "x[b s (h d)] -> y[b h s d]" splits heads and moves them forward.
constexpr AttributeDef kReshape[] = {
    {"rule", AttributeType::text, true, "index line, e.g. \"x[b s (h d)] -> y[b h s d]\""},
    {"sizes", AttributeType::sizes, false, "sizes of factors that the operand leaves open"}};
constexpr AttributeDef kRedistribute[] = {
    {"layout", AttributeType::layout, true, "placements the result must have"},
    {"gathered", AttributeType::boolean, false,
     "each rank uses a part of the result: the gradient is a sum of terms"}};

constexpr OpDef kOps[] = {
    {.name = "reshape",
     .family = "shape",
     .linear = "each",
     .attributes = kReshape,
     .summary = "regroups and reorders dims"},
    {.name = "transpose",
     .family = "shape",
     .linear = "each",
     .attributes = kReshape,
     .summary = "reorders dims"},
    {.name = "unstack",
     .family = "shape",
     .rule = "x[p! *] -> y[*]",
     .linear = "{x}",
     .outputs = "p",
     .summary = "one output per index of the first dim (fused gate and up, fused QKV)"},
    {.name = "first",
     .family = "shape",
     .rule = "x[p! *] -> y[*]",
     .linear = "{x}",
     .summary = "the first index of the first dim (the token that stands for a sample)"},
    {.name = "split",
     .family = "shape",
     .rule = "x[* (p! d!)] -> y[* d]",
     .linear = "{x}",
     .outputs = "p",
     .summary = "cuts the last dim into equal parts, one per output"},
    {.name = "concat",
     .family = "shape",
     .linear = "all",
     .summary = "joins operands along the last dim"},
    {.name = "redistribute",
     .family = "shape",
     .rule = "x[*] -> y[*]",
     .linear = "{x}",
     .attributes = kRedistribute,
     .summary = "the same value in a stated layout (a pin)"},
    {.name = "detach",
     .family = "shape",
     .rule = "x[*] -> y[*]",
     .linear = "{x}",
     .stop = "all",
     .summary = "x, cut off from the gradient"},
    {.name = "transfer",
     .family = "shape",
     .rule = "x[*] -> y[*]",
     .linear = "{x}",
     .summary = "sends x to the next pipeline stage (inserted at stage boundaries)"},
};

}  // namespace

std::span<const OpDef> shape_ops() {
  return kOps;
}

}  // namespace s2t
