#include "analyzer/ops/families.h"

namespace s2t {
namespace {

// The normalised dim is whole: statistics need all of it. gamma and beta enter linearly.
constexpr AttributeDef kEps[] = {
    {"eps", AttributeType::number, false, "added to the variance, default 1e-5"}};

constexpr OpDef kOps[] = {
    {.name = "layer_norm",
     .family = "norm",
     .rule = "x[* d!] gamma[d] beta[d] -> y[* d]",
     .linear = "{gamma beta}",
     .saved = "x<-x,gamma gamma<-x",
     .attributes = kEps,
     .summary = "layer normalisation over the last dim"},
    {.name = "layer_norm_unshifted",
     .family = "norm",
     .rule = "x[* d!] gamma[d] -> y[* d]",
     .linear = "{gamma}",
     .saved = "x<-x,gamma gamma<-x",
     .attributes = kEps,
     .summary = "layer normalisation over the last dim, without a beta"},
    {.name = "rms_norm",
     .family = "norm",
     .rule = "x[* d!] gamma[d] -> y[* d]",
     .linear = "{gamma}",
     .saved = "x<-x,gamma gamma<-x",
     .attributes = kEps,
     .summary = "root-mean-square normalisation over the last dim"},
    {.name = "softmax",
     .family = "norm",
     .rule = "x[* d!] -> y[* d]",
     .saved = "x<-x",
     .summary = "softmax over the last dim"},
};

}  // namespace

std::span<const OpDef> norm_ops() {
  return kOps;
}

}  // namespace s2t
