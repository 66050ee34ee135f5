// What an event can be called by, for whoever asks about "layers.3 all_gather".
//
// A word names an event if it is its kind, its phase, its group or one of the axes, the word for
// its cause, its module or part of it, its op, its owner, the tensor that moves or one of a bucket;
// names of modules, ops and tensors may be patterns. Not known here: ids.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analyzer/program/program.h"

namespace s2t {

// Kinds may be written otherwise: "AllGather", "all-gathers".
bool is_called(const Program& program, const Event& event, std::string_view word);

// Every word that names something, once, for suggestions: modules, what they are part of and ops
// first.
std::vector<std::string> callable_words(const Program& program);

}  // namespace s2t
