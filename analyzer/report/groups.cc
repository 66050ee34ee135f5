// `groups`: rank coordinates, process groups, and the order in which every rank creates them.
#include <fmt/format.h>

#include "analyzer/base/text.h"
#include "analyzer/program/listing.h"
#include "analyzer/report/header_text.h"
#include "analyzer/report/program_json.h"
#include "analyzer/report/report.h"
#include "analyzer/report/table.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

// Axes of both factorisations, each once.
std::vector<Axis> all_axes(const Mesh& mesh) {
  std::vector<Axis> axes = dense_axes(mesh);
  for (const Axis& axis : mesh.axes())
    if (axis.expert && !axis.part) axes.push_back(axis);
  return axes;
}

void print_ranks(const Program& program, const ReportOptions& options, std::ostream& out) {
  const std::vector<Axis> axes = all_axes(program.mesh);
  std::vector<Column> columns{{"rank", Column::Kind::right}};
  for (const Axis& axis : axes) columns.push_back({axis.name, Column::Kind::right});
  columns.push_back({"groups", Column::Kind::wrapped});
  Table table(std::move(columns));
  for (int64_t r = 0; r < program.mesh.world(); ++r) {
    const Rank rank(static_cast<int32_t>(r));
    if (options.rank && *options.rank != rank) continue;
    std::vector<std::string> cells{std::to_string(r)};
    for (const Axis& axis : axes)
      cells.push_back(std::to_string(program.mesh.coordinate(rank, axis.atoms)));
    std::string groups;
    for (const Family& family : program.families)
      if (const auto group = program.mesh.group_of(family, rank); !group.empty())
        groups +=
            fmt::format("{}{} {}", groups.empty() ? "" : ", ", family.name, rank_list(group, 8));
    cells.push_back(groups);
    table.row(std::move(cells));
  }
  out << "\n" << bold("Ranks", options.color) << " (coordinates along each axis)\n";
  table.print(out);
}

void print_order(const Program& program, const ReportOptions& options, std::ostream& out) {
  out << "\n"
      << bold("Creation order", options.color)
      << " (every rank makes every call, also for groups that it is not in)\n";
  Table table({{"call", Column::Kind::right}, {"group"}, {"ranks", Column::Kind::wrapped}});
  Count call = 0;
  for (const Family& family : program.families) {
    size_t i = 0;
    for (const auto& group : program.mesh.groups(family))
      table.row({std::to_string(call++), family.name + std::to_string(i++), rank_list(group, 64)});
  }
  table.print(out);
}

void write_rank_rows(JsonWriter& json, const Program& program, const ReportOptions& options) {
  json.key("ranks").array(JsonWriter::kLines);
  for (int64_t r = 0; r < program.mesh.world(); ++r) {
    const Rank rank(static_cast<int32_t>(r));
    if (options.rank ? *options.rank != rank : program.mesh.world() > kExplicitRanks) continue;
    json.object().field("rank", r).key("coordinates").object();
    for (const Axis& axis : all_axes(program.mesh))
      json.field(axis.name, program.mesh.coordinate(rank, axis.atoms));
    json.end().end();
  }
  json.end();
}

}  // namespace

void write_groups_text(const Program& program, const ReportOptions& options, std::ostream& out) {
  check_rank(program, options.rank);
  print_title(program, out, options.color);
  print_mesh(program, out, options.color);
  print_groups(program, out, options.color);
  const bool small = program.mesh.world() <= kExplicitRanks;
  if (small || options.rank || options.expand) print_ranks(program, options, out);
  if (small || options.expand)
    print_order(program, options, out);
  else
    out << "\nRanks one by one and every call of the creation order: --expand.\n";
}

void write_groups_json(const Program& program, const ReportOptions& options, std::ostream& out) {
  check_rank(program, options.rank);
  JsonWriter json(out);
  json.object(JsonWriter::kLines).field("schema", "shape2trace.groups/1");
  json.field("model", program.model).field("world", program.mesh.world()).key("mesh");
  write_mesh(json, program.mesh);
  json.key("groups");
  write_groups(json, program);
  write_rank_rows(json, program, options);
  json.end();
}

}  // namespace s2t
