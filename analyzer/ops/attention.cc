#include "analyzer/ops/families.h"

namespace s2t {
namespace {

// Heads are (g r): g key-value groups of r query heads each, so MHA is r = 1 and MQA is g = 1.
// The key length t and the head width h are whole: softmax over t needs every key.
constexpr AttributeDef kAttention[] = {
    {"causal", AttributeType::boolean, false, "mask later keys, default false"},
    {"scale", AttributeType::number, false, "multiplier of the scores, default 1/sqrt(h)"}};
constexpr AttributeDef kRope[] = {
    {"base", AttributeType::number, false, "wavelength base, default 10000"}};

constexpr OpDef kOps[] = {
    {.name = "attention",
     .family = "attention",
     .rule = "q[b (g r) s h] k[b g t! h!] v[b g t! j] -> o[b (g r) s j]",
     .linear = "{v}",
     .saved = "q<-q,k,v k<-q,k,v v<-q,k",
     .attributes = kAttention,
     .summary = "scaled dot-product attention; MHA, GQA and MQA",
     .ring = "s t"},
    {.name = "attention_biased",
     .family = "attention",
     .rule = "q[b (g r) s h] k[b g t! h!] v[b g t! j] bias[s t! (g r)] -> o[b (g r) s j]",
     .linear = "{v}",
     .saved = "q<-q,k,v,bias k<-q,k,v,bias v<-q,k,bias bias<-q,k,v,bias",
     .attributes = kAttention,
     .summary = "attention with a number added to every score (relative positions)"},
    {.name = "attention_with_sinks",
     .family = "attention",
     .rule = "q[b (g r) s h] k[b g t! h!] v[b g t! j] sink[(g r)] -> o[b (g r) s j]",
     .linear = "{v}",
     .saved = "q<-q,k,v,sink k<-q,k,v,sink v<-q,k,sink sink<-q,k,v,sink",
     .attributes = kAttention,
     .summary = "attention in which every head has one more score that no value belongs to"},
    {.name = "rope",
     .family = "attention",
     .rule = "x[b n s h!] -> y[b n s h]",
     .linear = "{x}",
     .attributes = kRope,
     .summary = "rotary position embedding"},
};

}  // namespace

std::span<const OpDef> attention_ops() {
  return kOps;
}

}  // namespace s2t
