// What other settings of the switches would do to the events that are asked about.
//
// Known here: that two steps are compared by their calls. Not known here: which settings there are,
// and how a step follows from them.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/report/answer.h"
#include "analyzer/report/report.h"

namespace s2t {

// Calls by kind and group, "all_gather" over "tp".
using CallCounts = std::map<std::pair<std::string, std::string>, Count>;

struct Effect {
  Setting setting;
  CallCounts now, then;  // of one pass, under this setting and under the other
  bool resized = false;  // as many as now, but of other sizes or not as often
};

// The settings that make a difference, in the order of the switches.
std::vector<Effect> effects(const Program& program, const Answer& answer,
                            const OtherSettings& others);

// What changes: "4 all_gather over tp, not 6"; "none of these".
std::string text_of(const Effect& effect);

}  // namespace s2t
