// The first lines of a text report: the model, its mesh and its process groups.
#pragma once

#include <ostream>

#include "analyzer/program/program.h"

namespace s2t {

void print_title(const Program& program, std::ostream& out, bool color);

// "dp 2 x tp 2, rank = 2 dp + tp", and the expert axes if there are any.
void print_mesh(const Program& program, std::ostream& out, bool color);

// One line per family in creation order, with the ranks of its groups.
void print_groups(const Program& program, std::ostream& out, bool color);

// Schedule, bubble and activations held; nothing without a pipeline.
void print_pipeline(const Program& program, std::ostream& out, bool color);

}  // namespace s2t
