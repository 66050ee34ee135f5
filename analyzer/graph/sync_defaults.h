// What gradient synchronisation does where the model leaves a key out.
//
// Known here: the defaults of every kind, in one place for prediction and run. Not known here: what
// follows from them.
#pragma once

#include "analyzer/base/units.h"
#include "analyzer/graph/model.h"

namespace s2t {

// Gradients are reduced in every microbatch, not once per step.
bool every_microbatch(const GradientSyncDecl& sync);

// The last backward of a step reduces while it runs, not when it has ended.
bool overlaps(const GradientSyncDecl& sync);

// Gradients are reduced inside a backward: the last one, or every one.
bool in_backward(const GradientSyncDecl& sync);

// Bytes at which the first bucket of a kind, or a later one, is full.
Count bucket_limit(const GradientSyncDecl& sync, int stage, bool first);

}  // namespace s2t
