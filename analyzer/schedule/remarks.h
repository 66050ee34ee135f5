// What is worth knowing about a program beside its events: what each pass remarked, once, and what
// people take for granted and is otherwise.
#pragma once

#include <vector>

#include "analyzer/backward/gradient_sync.h"
#include "analyzer/program/program.h"

namespace s2t {

// `program`: with its stages, families and causes.
std::vector<Remark> remarks_of(const Graph& graph, const Forward& forward, const Backward& backward,
                               const Sync& sync, const Program& program);

}  // namespace s2t
