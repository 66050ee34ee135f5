// What needs two parts of a model to be seen: names that nobody declares, ops before their inputs,
// cycles, stages that go backwards, batches that do not divide.
//
// Works on the data, whoever read it. Not known here: shapes and layouts (graph/) and schedules.
#pragma once

#include "analyzer/base/diagnostics.h"
#include "analyzer/graph/model.h"

namespace s2t {

void check_references(const Model& model, Diagnostics& sink);

}  // namespace s2t
