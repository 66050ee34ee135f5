// What the script of the HTML report reads: events, families and axes as JSON. Names come as the page
// shows them (unicode.h): what a script reads of "\u202e" in JSON it would show as that character.
#include <sstream>

#include "analyzer/base/unicode.h"
#include "analyzer/program/listing.h"
#include "analyzer/report/json_writer.h"
#include "analyzer/report/page.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

struct PageColumn {
  std::string_view key, title;
  bool number;
};
constexpr PageColumn kColumns[] = {
    {"id", "id", true},         {"phase", "phase", false},          {"op", "collective", false},
    {"family", "group", false}, {"tensor", "tensor", false},        {"node", "op", false},
    {"stage", "stage", true},   {"microbatch", "microbatch", true}, {"shape", "local shape", false},
    {"dtype", "dtype", false},  {"input", "input B", true},         {"output", "output B", true},
    {"wire", "wire B", true},   {"repeat", "times", true},
};

void write_atoms(JsonWriter& json, const Mesh& mesh, AtomSet atoms) {
  json.array();
  for (size_t i = 0; i < mesh.atoms().size(); ++i) {
    if (!contains(atoms, AtomIndex(i))) continue;
    json.array().value(mesh.atoms()[i].stride).value(mesh.atoms()[i].size).end();
  }
  json.end();
}

void write_page_event(JsonWriter& json, const Program& program, const Event& e) {
  json.object().field("id", e.id).field("phase", to_string(e.phase));
  json.field("op", info(e.op).name).field("family", one_line(program.families[e.family].name));
  json.field("tensor", one_line(subject(e))).field("node", one_line(e.node));
  json.field("module", one_line(e.module));
  json.field("stage", e.stage).field("microbatch", e.microbatch);
  json.field("shape", words(e.shape)).field("dtype", info(e.dtype).name);
  json.field("input", e.volume.input_bytes).field("output", e.volume.output_bytes);
  json.field("wire", e.volume.wire_bytes).field("repeat", e.repeat);
  json.field("why", one_line(program.causes.at(e.cause).why)).key("ranks").array();
  for (const RankSet::Along& along : e.ranks.along) {
    json.array();
    write_atoms(json, program.mesh, along.atoms);
    json.value(along.coordinates).end();
  }
  json.end().end();
}

void write_columns(JsonWriter& json) {
  json.key("columns").array();
  for (const PageColumn& c : kColumns)
    json.object().field("key", c.key).field("title", c.title).field("number", c.number).end();
  json.end();
}

void write_places(JsonWriter& json, const Program& program) {
  json.field("world", program.mesh.world()).key("axes").array();
  for (const bool expert : {false, true})
    for (const Axis& axis : expert ? expert_axes(program.mesh) : dense_axes(program.mesh)) {
      if (expert && !axis.expert) continue;
      json.object().field("name", one_line(axis.name)).key("atoms");
      write_atoms(json, program.mesh, axis.atoms);
      json.end();
    }
  json.end().key("families").array();
  for (const Family& family : program.families) {
    json.object()
        .field("name", one_line(family.name))
        .field("members", family.members)
        .key("atoms");
    write_atoms(json, program.mesh, family.atoms);
    json.end();
  }
  json.end();
}

}  // namespace

std::string page_data(const Program& program, const Filter& filter, bool each_event) {
  std::ostringstream out;
  JsonWriter json(out);
  json.object();
  write_columns(json);
  write_places(json, program);
  json.key("events").array(JsonWriter::kLines);
  const auto each = each_event ? for_each_event : for_each_summary_event;
  each(program, [&](const Event& e) {
    if (filter.wants(e) && filter.issues(e)) write_page_event(json, program, e);
  });
  json.end().end();
  // Inside <script> a tag would end it; in JSON "<" stands only in strings.
  std::string safe;
  for (const char c : out.str()) safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return safe;
}

}  // namespace s2t
