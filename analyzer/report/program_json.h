// The parts of a program as JSON, in the words of schemas/program.schema.json; several reports
// share them.
#pragma once

#include "analyzer/program/program.h"
#include "analyzer/report/json_writer.h"

namespace s2t {

void write_mesh(JsonWriter& json, const Mesh& mesh);

// One entry per group, or above 64 ranks per family; families in creation order.
void write_groups(JsonWriter& json, const Program& program);
void write_event(JsonWriter& json, const Program& program, const Event& event);
void write_pruned(JsonWriter& json, const Program& program, const Pruned& pruned);

// {"coordinates": {"pp": 0}}; several coordinates along one axis are a list.
void write_rank_set(JsonWriter& json, const RankSet& set);

// {"dp": 0, "tp": 1} over the dense axes.
void write_coordinates(JsonWriter& json, const Mesh& mesh, Rank rank);

}  // namespace s2t
