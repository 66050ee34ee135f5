// The annotated graph as a drawing: boxes, arrows and frames, before it is known in which language
// they are written.
//
// What repeats is drawn once: stages that are alike and, within a stage, blocks of ops that are
// alike in kind, shapes, layouts and collectives. Not known here: places, sizes, syntax.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/program/program.h"
#include "analyzer/report/report.h"

namespace s2t {

// Forward and backward differ by shape and line, so that they are told apart without colour.
enum class BoxKind : uint8_t {
  leaf,  // an input of the model, or what comes from a part that is not shown
  op,
  forward,  // a collective by its phase
  backward,
  recompute,
  grad_sync,
  step,
};

struct Box {
  BoxKind kind = BoxKind::op;
  std::vector<std::string> lines;  // one line of text each, not escaped
  std::string tooltip;             // full names and reasons
  std::string axis;                // of a collective: whose colour it has; else empty
  bool pruned = false;
  int frame = -1;
};

enum class ArrowKind : uint8_t {
  value,
  gradient,
  order,  // no data of the graph: what comes first
};

struct Arrow {
  size_t from = 0, to = 0;  // boxes, in the direction in which the data goes
  std::vector<std::string> lines;
  ArrowKind kind = ArrowKind::value;
  bool pruned = false;
  std::string tooltip;  // full names, if the lines had to shorten them
};

struct Frame {
  std::string title;
  int parent = -1;
};

struct Diagram {
  std::string title;
  std::string shown;  // what the filters leave in, or empty
  std::vector<Box> boxes;
  std::vector<Arrow> arrows;
  std::vector<Frame> frames;  // parents first
};

// Throws UserError for a rank, axis, phase or range of layers that the program does not have.
Diagram draw_program(const Program& program, const ReportOptions& options);

std::string diagram_dot(const Diagram& diagram, const Mesh& mesh);
std::string diagram_mermaid(const Diagram& diagram, const Mesh& mesh);

// The title, what the filters leave in, and what the boxes and lines that are there mean: lines, in
// the words of either language.
enum class Drawn : uint8_t { by_graphviz, by_mermaid };
std::string diagram_heading(const Diagram& diagram, Drawn drawn);

}  // namespace s2t
