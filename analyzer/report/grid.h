// Which ranks and which neighbourhoods a picture of the process groups shows.
//
// Up to 64 ranks all are there. A larger world is shown by its structure: along each axis the first
// ranks and the last, the rest left out. Not known here: places and syntax.
#pragma once

#include <string>
#include <vector>

#include "analyzer/program/program.h"

namespace s2t {

// Axes of more than one rank, fastest first: those of the dense, or of the expert factorisation.
// Their names are short ones (short_names.h), as in all texts of this file.
std::vector<Axis> drawn_axes(const Mesh& mesh, bool expert);

// Rank distance between neighbours along an axis.
int64_t axis_stride(const Mesh& mesh, const Axis& axis);

// Coordinates that are shown, ascending: all if there are at most `most`, else 0, 1 and the last.
std::vector<int64_t> shown_coordinates(int64_t size, int64_t most);

bool shows_all_ranks(const Mesh& mesh);

// "dp 1 tp 0", slowest axis first.
std::string coordinates_text(const Mesh& mesh, const std::vector<Axis>& fastest_first, Rank rank);

// "tp: 2,048 groups of 8, stride 1; the first is [0,1,2,3, ... 7]", or that of one rank.
std::string family_text(const Program& program, const Family& family, std::optional<Rank> rank);

// "4 ranks = dp 2 x tp 2"
std::string world_text(const Mesh& mesh, const std::vector<Axis>& fastest_first);

}  // namespace s2t
