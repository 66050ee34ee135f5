#include "analyzer/ops/families.h"

namespace s2t {
namespace {

// Weights are [out, in], as torch.nn.functional.linear wants them. A bias is an op of its own:
// added to a Partial product it would be counted once per rank, and the rule of bias_add makes that
// impossible.
constexpr AttributeDef kEinsum[] = {
    {"rule", AttributeType::text, true, "index line, e.g. \"x[b s k] w[h d k] -> y[b s h d]\""},
    {"sizes", AttributeType::sizes, false, "sizes of factors that the operands leave open"}};

constexpr OpDef kOps[] = {
    {.name = "linear",
     .family = "dense",
     .rule = "x[* k] w[n k] -> y[* n]",
     .linear = "{x} {w}",
     .saved = "x<-w w<-x",
     .summary = "y = x w^T, w is [out, in]"},
    {.name = "matmul",
     .family = "dense",
     .rule = "a[* m k] b[* k n] -> y[* m n]",
     .linear = "{a} {b}",
     .saved = "a<-b b<-a",
     .summary = "batched matrix product"},
    {.name = "einsum",
     .family = "dense",
     .linear = "each",
     .saved = "others",
     .attributes = kEinsum,
     .summary = "sum of products along any index line"},
    {.name = "bias_add",
     .family = "dense",
     .rule = "x[* n] b[n] -> y[* n]",
     .linear = "{x b}",
     .summary = "adds one bias per last-dim feature"},
};

}  // namespace

std::span<const OpDef> dense_ops() {
  return kOps;
}

}  // namespace s2t
