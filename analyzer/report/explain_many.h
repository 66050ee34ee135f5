// What `explain` says of many events at once: how many of which kind and why, counted per module,
// then each reason in the words of its event; alike layers are told once.
//
// Known here: tables. Not known here: how the events were found (answer.h).
#pragma once

#include <ostream>

#include "analyzer/report/answer.h"
#include "analyzer/report/json_writer.h"
#include "analyzer/report/otherwise.h"

namespace s2t {

void print_answer(const Program& program, const ReportOptions& options, const Answer& answer,
                  std::ostream& out);
void print_effects(const std::vector<Effect>& effects, bool color, std::ostream& out);

// The keys "events", "pruned" and "counts" of an object that is open.
void write_answer(JsonWriter& json, const Program& program, const Answer& answer);
void write_effects(JsonWriter& json, const std::vector<Effect>& effects);

}  // namespace s2t
