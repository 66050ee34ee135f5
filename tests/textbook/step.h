// The step of a model of models/, as lines that a test can write by hand:
//
//   "forward all_reduce tp y 262144>262144"
//   "forward all_to_all ep rows 131072>229376 [56,8]>[56,56]"
//   "backward send pp h to 0 262144"
//   "pruned backward all_reduce tp x 16384"
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyzer/program/program.h"

namespace s2t {

Program analyze_model(const std::string& name);  // models/<name>.json

// One rank's events in its issue order.
std::vector<std::string> lines_of(const Program& program, Rank rank);

// The same without what `keep` rejects.
std::vector<std::string> lines_of(const Program& program, Rank rank, Phase phase);

std::vector<std::string> pruned_lines(const Program& program);

// {"AllReduce": 4}; names that a rank never launches are left out.
std::map<std::string, int> kernels_of(const Program& program, Rank rank);

// {"forward all_gather": 2, ...}
std::map<std::string, int> counts_of(const Program& program, Rank rank);

// "tp: 0 1 | 2 3", in creation order.
std::vector<std::string> group_lines(const Program& program);

}  // namespace s2t
