// Turns an architecture, a plan and a profile into a `Model`: the ops of one microbatch, where
// parameters lie, the stages, and what surrounds them. Everything after that is the same as for a
// model file; no collective is decided here.
//
// Activations are [tokens, features]; the tokens of a microbatch are (dp, sequence, sample), dp
// major, so that data, context and sequence parallelism all split dim 0, and so do experts. Modules
// are named "embed", "layers.3.attn", "layers.3.mlp", "layers.3.moe", "head", "loss".
// Queries, keys and values, and gate and up, are linears of their own where a framework fuses them:
// they share one gathered input, so that calls and bytes are the same.
#pragma once

#include "analyzer/base/diagnostics.h"
#include "analyzer/graph/model.h"
#include "analyzer/io/architecture.h"
#include "analyzer/io/plan.h"
#include "analyzer/io/profiles.h"

namespace s2t {

// nullopt if anything was reported: an impossible plan, or a part of the architecture that the
// profile's framework does not have or that is not modelled yet.
std::optional<Model> build_transformer(const Architecture& architecture, const Plan& plan,
                                       const Profile& profile, Diagnostics& sink);

}  // namespace s2t
