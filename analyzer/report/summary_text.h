// A step in few lines, however many layers and ranks there are: by process group and phase, by
// owner, by group alone, and module by module with alike ones counted.
//
// Known here: tables. Not known here: single events, and when which table is worth its lines
// (predict_text.cc).
#pragma once

#include <ostream>

#include "analyzer/program/program.h"
#include "analyzer/program/selection.h"

namespace s2t {

struct SummaryText {
  const Program& program;
  const Selection& selection;
  std::ostream& out;
  bool color = false;

  // Per phase, group and collective; a sentence if there is nothing.
  void print_groups() const;
  // Who every kernel belongs to (program/owner.h).
  void print_owners() const;
  // Each group's three byte numbers, of the rank that moves most over it, and what all ranks of the
  // selection put on the wire.
  void print_totals() const;
  // What each module does once, one line for all that do the same.
  void print_modules() const;

 private:
  void heading(std::string_view title, std::string_view note) const;
  std::string whose() const;
  std::string part() const;
};

}  // namespace s2t
