// What surrounds the ops of a transformer: the mesh of ranks, switches of the engine, gradient
// synchronisation, the pipeline; and what is remarked about the whole. From a plan and a profile.
//
// Not known here: the ops (blocks.h).
#pragma once

#include "analyzer/base/diagnostics.h"
#include "analyzer/io/transformer/builder.h"

namespace s2t {

// Sets everything of `b.model` but tensors, ops, pins and the loss.
void set_up_job(ModelBuilder& b);
// Collectives besides activations and gradients. Precondition: all ops are there.
void add_calls(ModelBuilder& b);
void add_torch_scalars(ModelBuilder& b);
// One number of the optimizer that ranks along `axes` add up; for the caller to refine.
CallDecl& add_scalar(ModelBuilder& b, std::string name, std::vector<std::string> axes,
                     CallDecl::When when, std::string why);
void add_remarks(ModelBuilder& b);

// Dense and expert axes that do not nest.
void check_mesh(const Model& model, Diagnostics& sink);

}  // namespace s2t
