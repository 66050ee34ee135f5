// A prediction against what was seen, rank by rank and call by call, in order.
//
// Where the two part, the rest of the rank is lined up again: a missing call, an extra one, two
// that changed places, or one that differs in some field. Fields that nobody saw are not compared.
// Not known here: how anything was observed.
#pragma once

#include <string>
#include <vector>

#include "analyzer/program/program.h"
#include "analyzer/trace/observation.h"

namespace s2t {

struct Difference {
  enum class Kind : uint8_t { missing, extra, swapped, differs };
  Kind kind = Kind::differs;
  Rank rank;
  size_t position = 0;              // in the rank's observed order
  std::optional<int64_t> event;     // predicted, by its id in the listing
  std::vector<std::string> fields;  // that differ
  std::string text;                 // one sentence

  bool operator==(const Difference&) const = default;
};
std::string_view to_string(Difference::Kind kind);

// By rank. The first difference of every rank comes before any rank's second; at most `most`.
std::vector<Difference> compare(const Program& program,
                                const std::vector<std::vector<Observation>>& by_rank,
                                size_t most = 64);

// Predicted events by rank, each in its issue order.
std::vector<std::vector<Event>> events_by_rank(const Program& program);

}  // namespace s2t
