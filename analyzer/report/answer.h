// What `explain` is asked about: one event or pruned collective by its id, or all that some words
// name together, "layers.3" "all_gather".
//
// Known here: which events these are, in this step and in one that is set up otherwise. Not known
// here: what is said about them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analyzer/program/program.h"
#include "analyzer/report/report.h"

namespace s2t {

struct Answer {
  std::vector<Event> events;  // of a summary: each once, `repeat` telling how often; not pruned
  std::vector<const Pruned*> pruned;
  // The one thing asked for, if it is one; else what the words say is told of all.
  const Event* only = nullptr;
  // Whether an event of any step is one of them.
  std::function<bool(const Program&, const Event&)> meant;

  Answer() = default;
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  Answer(Answer&&) = default;
  Answer& operator=(Answer&&) = default;
};

// Throws UserError (slug unknown-event) if nothing is called so.
Answer answer(const Program& program, const std::vector<std::string>& words);

}  // namespace s2t
