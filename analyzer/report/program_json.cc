#include "analyzer/report/program_json.h"

#include "analyzer/program/listing.h"
#include "analyzer/program/owner.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

void write_axes(JsonWriter& json, const std::vector<Axis>& axes) {
  json.array();
  for (const Axis& axis : axes)
    json.object().field("name", axis.name).field("size", axis.size).end();
  json.end();
}

void write_ranks(JsonWriter& json, const std::vector<Rank>& ranks) {
  json.array();
  for (const Rank rank : ranks) json.value(rank.value);
  json.end();
}

void write_event_ranks(JsonWriter& json, const Program& program, const Event& event) {
  json.key("ranks");
  const bool all_listed = program.mesh.world() <= kExplicitRanks;
  if (event.ranks.along.empty()) {
    json.value("all");
  } else if (!all_listed) {
    write_rank_set(json, event.ranks);
  } else {
    const std::vector<Rank> ranks = ranks_of(program, event);
    if (static_cast<int64_t>(ranks.size()) == program.mesh.world())
      json.value("all");
    else
      write_ranks(json, ranks);
  }
}

void write_peer(JsonWriter& json, const Program& program, const Event& event) {
  if (event.peer)
    json.field("peer", event.peer->value);
  else if (event.peer_offset)
    json.key("peer")
        .object()
        .field("axis", program.families.at(event.family).name)
        .field("offset", *event.peer_offset)
        .end();
}

void write_splits(JsonWriter& json, const Splits& splits) {
  json.key("splits").object().field("unit", "rows").field("row_elements", splits.row_elements);
  json.field("send", splits.send).field("recv", splits.recv).end();
}

std::optional<int64_t> none_if_negative(int64_t n) {
  return n < 0 ? std::nullopt : std::optional(n);
}

}  // namespace

void write_rank_set(JsonWriter& json, const RankSet& set) {
  json.object().key("coordinates").object();
  for (const RankSet::Along& along : set.along) {
    json.key(along.axis);
    if (along.coordinates.size() == 1)
      json.value(along.coordinates.front());
    else
      json.value(along.coordinates);
  }
  json.end().end();
}

void write_mesh(JsonWriter& json, const Mesh& mesh) {
  json.object().key("axes");
  write_axes(json, dense_axes(mesh));
  if (const auto expert = expert_axes(mesh); !expert.empty()) {
    json.key("expert_axes");
    write_axes(json, expert);
  }
  json.end();
}

void write_groups(JsonWriter& json, const Program& program) {
  const Mesh& mesh = program.mesh;
  json.array(JsonWriter::kLines);
  for (const Family& family : program.families) {
    if (mesh.world() > kExplicitRanks) {
      json.object().field("family", family.name).field("axes", family.axes);
      json.field("size", mesh.group_size(family)).field("count", mesh.group_count(family));
      json.field("stride", mesh.stride(family)).key("first");
      write_ranks(json, first_group(mesh, family));
      json.end();
      continue;
    }
    size_t i = 0;
    for (const std::vector<Rank>& group : mesh.groups(family)) {
      json.object().field("name", family.name + std::to_string(i++));
      json.field("family", family.name).field("axes", family.axes).key("ranks");
      write_ranks(json, group);
      json.end();
    }
  }
  json.end();
}

void write_event(JsonWriter& json, const Program& program, const Event& event) {
  const Family& family = program.families.at(event.family);
  const Cause& cause = program.causes.at(event.cause);
  json.object().field("id", event.id).field("phase", to_string(event.phase));
  json.field("op", info(event.op).name).field("family", family.name).field("axes", family.axes);
  json.field("tensor", event.tensor).field("node", event.node);
  json.field("module", event.module).field("owner", owner_of(event));
  json.field("stage", event.stage).field("chunk", event.chunk);
  json.field("microbatch", event.microbatch);
  write_event_ranks(json, program, event);
  write_peer(json, program, event);
  json.field("call", event.call).field("batch", none_if_negative(event.batch));
  json.field("dtype", info(event.dtype).name).field("shape", event.shape);
  json.field("elements", event.volume.elements).field("input_bytes", event.volume.input_bytes);
  json.field("output_bytes", event.volume.output_bytes);
  json.field("wire_bytes", event.volume.wire_bytes);
  if (event.splits) write_splits(json, *event.splits);
  json.field("members", event.members).field("repeat", event.repeat);
  json.key("cause").object().field("rule", to_string(cause.kind)).field("why", cause.why).end();
  json.end();
}

void write_pruned(JsonWriter& json, const Program& program, const Pruned& pruned) {
  const Event& event = pruned.event;
  json.object().field("id", pruned.id).field("op", info(event.op).name);
  json.field("phase", to_string(event.phase));
  json.field("family", program.families.at(event.family).name).field("tensor", event.tensor);
  json.field("saved_bytes", event.volume.input_bytes).field("because", pruned.because).end();
}

void write_coordinates(JsonWriter& json, const Mesh& mesh, Rank rank) {
  json.object();
  for (const Axis& axis : dense_axes(mesh))
    json.field(axis.name, mesh.coordinate(rank, axis.atoms));
  json.end();
}

}  // namespace s2t
