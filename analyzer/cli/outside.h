// Outside programs that turn one picture format into another: started as a child, fed and read
// through pipes, stopped when they take too long.
//
// Graphviz runs as a child because its library leaks and its output varies within one process.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/base/diagnostics.h"

namespace s2t {

// An outside program that refused what we gave it; a page does without its picture.
class DrawingFailed : public Fault {
 public:
  using Fault::Fault;
};

// The file that the shell would start; "" if none.
std::string find_program(std::string_view name);

// What `command` ("dot -Tsvg", words without quotes) writes when it reads `input`. Throws Absent if
// it is not installed, TooMuchToDraw (slug too-slow) after `seconds`, DrawingFailed if it
// fails, or if it writes no SVG or PNG where the command asks for one.
std::string run_through(std::string_view command, const std::string& input, int seconds = 20);

// Stops the one that runs, if any; from whatever thread ends the program.
void end_outside_program();

}  // namespace s2t
