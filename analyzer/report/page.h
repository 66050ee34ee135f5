// The HTML report: one file, no network. Only the reports' own parts are declared here.
#pragma once

#include <string>

#include "analyzer/program/program.h"
#include "analyzer/report/filter.h"
#include "analyzer/report/report.h"

namespace s2t {

inline constexpr Count kMostPageEvents = 3000;  // beyond, what repeats is one row with a count

// JSON, safe inside <script>: each event, or those of a summary, with the ids of the whole step.
std::string page_data(const Program& program, const Filter& filter, bool each_event);
std::string groups_svg(const Program& program, const ReportOptions& options);

}  // namespace s2t
