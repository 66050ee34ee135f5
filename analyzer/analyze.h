// The whole pipeline on one screen: a model in, every collective of one training step out.
#pragma once

#include "analyzer/graph/model.h"
#include "analyzer/program/program.h"

namespace s2t {

// Throws UserError with everything that is wrong with the model.
Program analyze(const Model& model);

}  // namespace s2t
