// The bytes of one call, worked out on paper: the formula, the numbers put in, the result.
#pragma once

#include <string>
#include <vector>

#include "analyzer/program/program.h"

namespace s2t {

struct ByteLine {
  std::string what;     // "input", "output", "wire"
  std::string formula;  // "2 (n-1)/n S"
  std::string numbers;  // "2 x 1/2 x 262,144"
  Count bytes = 0;
};

// Every line's numbers give its bytes; Fault if they do not give the event's.
std::vector<ByteLine> byte_lines(const Program& program, const Event& event);

}  // namespace s2t
