// The whole pipeline on one screen: a model in, every collective of one training step out.
#pragma once

#include "analyzer/graph/model.h"
#include "analyzer/program/program.h"
#include "analyzer/schedule/simulate.h"

namespace s2t {

// Throws UserError with everything that is wrong with the model. `costs` only time the pipeline.
Program analyze(const Model& model, const Costs& costs = {});

}  // namespace s2t
