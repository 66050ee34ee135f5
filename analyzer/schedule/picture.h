// Copies what is drawn of a graph out of it: names, shapes, and layouts as text.
#pragma once

#include "analyzer/forward/plan.h"
#include "analyzer/program/picture.h"

namespace s2t {

GraphPicture picture_of(const Graph& graph, const Forward& forward);

}  // namespace s2t
