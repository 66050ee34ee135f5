// Which part of a step is asked for: one rank, one stage, one module.
//
// Known here: which events belong to it. Not known here: whether there is such a rank, stage or
// module at all (whoever asks says so), and how anything is printed.
#pragma once

#include <optional>
#include <string>

#include "analyzer/program/program.h"

namespace s2t {

struct Selection {
  std::optional<Rank> rank;
  std::optional<int64_t> stage;  // pipeline coordinate
  std::string module;            // as `belongs` reads it (program/owner.h); "": all

  bool all() const { return !rank && !stage && module.empty(); }
};

// Of events of a segment and of a listing alike.
bool selects(const Selection& selection, const Program& program, const Event& event);

// Whether ranks of this pipeline coordinate are in the set.
bool on_stage(const RankSet& set, const Program& program, int64_t stage);

}  // namespace s2t
