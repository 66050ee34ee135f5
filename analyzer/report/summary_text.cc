#include "analyzer/report/summary_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "analyzer/base/text.h"
#include "analyzer/base/unicode.h"
#include "analyzer/program/modules.h"
#include "analyzer/program/tally.h"
#include "analyzer/report/table.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

constexpr auto kRight = Column::Kind::right;
constexpr auto kFlexible = Column::Kind::flexible;

std::string span(Count least, Count most) {
  return least == most ? commas(most) : commas(least) + "-" + commas(most);
}

// The unit of a table's totals: bytes while they can be read, else megabytes (10^6).
struct Unit {
  std::string_view name;
  Count bytes;

  std::string operator()(Count n) const {
    if (bytes == 1) return commas(n);
    const Count tenths = n / (bytes / 10) + (n % (bytes / 10) >= bytes / 20 ? 1 : 0);
    return fmt::format("{}.{}", commas(tenths / 10), tenths % 10);
  }
  Column column(std::string_view what) const { return {fmt::format("{} {}", what, name), kRight}; }
};

Unit unit_of(const std::vector<SummaryRow>& rows) {
  constexpr Count kTooLong = 1'000'000'000'000;
  const bool longest = std::any_of(rows.begin(), rows.end(), [](const SummaryRow& r) {
    return std::max({r.input_bytes, r.output_bytes, r.wire_bytes}) >= kTooLong;
  });
  return longest ? Unit{"MB", 1'000'000} : Unit{"B", 1};
}

// 0 1 2 5 -> "0..2, 5"
std::string numbers(const std::vector<int64_t>& list) {
  std::string text = ranges(list);
  for (size_t dash = text.find('-'); dash != std::string::npos; dash = text.find('-', dash + 2))
    text.replace(dash, 1, "..");
  return text;
}

std::string module_name(const ModuleRow& row) {
  return row.numbers.empty() ? row.stem : row.stem + " " + numbers(row.numbers);
}

}  // namespace

void SummaryText::heading(std::string_view title, std::string_view note) const {
  const auto lines = wrapped(fmt::format("{} ({})", title, note), kPageWidth);
  out << "\n" << bold(title, color) << lines.front().substr(title.size()) << "\n";
  for (size_t i = 1; i < lines.size(); ++i) out << "  " << lines[i] << "\n";
}

std::string SummaryText::whose() const {
  if (selection.rank) return fmt::format("rank {}", selection.rank->value);
  if (program.pipeline_axis.empty()) return "the busiest rank";
  if (selection.stage) return fmt::format("the busiest rank of stage {}", *selection.stage);
  return "the busiest rank of each stage";
}

// ", layers.3 alone": the part of the step that is counted.
std::string SummaryText::part() const {
  return selection.module.empty() ? "" : fmt::format(", {} alone", one_line(selection.module));
}

void SummaryText::print_groups() const {
  const auto rows = summarize(program, selection);
  if (rows.empty()) {
    out << (selection.module.empty() ? "\nNothing is communicated.\n"
                                     : fmt::format("\nNothing of {} is communicated by {}.\n",
                                                   one_line(selection.module), whose()));
    return;
  }
  heading("Summary", fmt::format("of {}{}, bytes of one step", whose(), part()));
  const Unit unit = unit_of(rows);
  Table table({{"phase"},
               {"group", kFlexible},
               {"operation"},
               {"dtype"},
               {"stage", kFlexible},
               {"calls", kRight},
               {"input B of one", kRight, true},
               unit.column("input"),
               unit.column("output"),
               unit.column("wire")});
  for (const auto& [row, stages] : merge_stages(rows))
    table.row({std::string(to_string(row.phase)), program.families.at(row.family).name,
               std::string(info(row.op).name), std::string(info(row.dtype).brief),
               ranges(stages, program.pipeline_ranks), commas(row.calls),
               span(row.min_input_bytes, row.max_input_bytes), unit(row.input_bytes),
               unit(row.output_bytes), unit(row.wire_bytes)});
  table.print(out);
}

void SummaryText::print_owners() const {
  const auto rows = summarize(program, selection, By::owner);
  if (rows.empty()) return;
  heading("Owners", fmt::format("of the calls of {}{}, bytes of one step", whose(), part()));
  const Unit unit = unit_of(rows);
  Table table({{"owner", kFlexible},
               {"phase"},
               {"stage", kFlexible},
               {"calls", kRight},
               unit.column("input"),
               unit.column("output"),
               unit.column("wire")});
  for (const auto& [row, stages] : merge_stages(rows))
    table.row({row.owner, std::string(to_string(row.phase)), ranges(stages, program.pipeline_ranks),
               commas(row.calls), unit(row.input_bytes), unit(row.output_bytes),
               unit(row.wire_bytes)});
  table.print(out);
}

void SummaryText::print_totals() const {
  const auto rows = summarize(program, selection, By::family);
  if (rows.empty()) return;
  const std::string stage = selection.stage ? fmt::format(" of stage {}", *selection.stage) : "";
  heading("Totals",
          selection.rank
              ? fmt::format("of {}{}, bytes of one step", whose(), part())
              : fmt::format("of the rank{} that moves most over the group{}, bytes of one step; "
                            "last, of all ranks{}",
                            stage, part(), stage));
  std::vector<SummaryRow> all = rows;
  for (SummaryRow& row : all) row.wire_bytes = row.wire_of_all;
  const Unit unit = unit_of(rows), unit_of_all = unit_of(all);
  Table table({{"group", kFlexible},
               {"axes", kFlexible},
               {"size", kRight},
               {"rank", kRight},
               {"calls", kRight},
               unit.column("input"),
               unit.column("output"),
               unit.column("wire"),
               unit_of_all.column("all wire")});
  const bool one = selection.rank.has_value();
  for (const SummaryRow& row : rows) {
    const Family& family = program.families.at(row.family);
    const std::string axes = join(family.axes, " ");
    table.row({family.name, axes == family.name ? "" : axes,
               std::to_string(program.mesh.group_size(family)),
               one ? "" : std::to_string(row.rank.value), commas(row.calls), unit(row.input_bytes),
               unit(row.output_bytes), unit(row.wire_bytes),
               one ? "" : unit_of_all(row.wire_of_all)});
  }
  table.print(out);
}

void SummaryText::print_modules() const {
  const auto rows = module_rows(program, selection);
  if (rows.empty()) return;
  heading("Modules", "calls of one of them, each of the times per step; bytes of one call");
  Table table({{"modules", kFlexible},
               {"phase"},
               {"stage", kFlexible},
               {"times", kRight},
               {"calls", kRight},
               {"operation"},
               {"group", kFlexible},
               {"dtype", Column::Kind::left, true},
               {"input B", kRight},
               {"output B", kRight}});
  for (const ModuleRow& row : rows) {
    bool first = true;
    for (const ModuleCalls& c : row.calls) {
      std::vector<std::string> cells(4);
      if (first)
        cells = {module_name(row), std::string(to_string(row.phase)),
                 ranges(row.stages, program.pipeline_ranks), commas(row.times)};
      for (std::string& cell : std::vector<std::string>{
               commas(c.calls), std::string(info(c.op).name), program.families.at(c.family).name,
               std::string(info(c.dtype).brief), span(c.least.input_bytes, c.most.input_bytes),
               span(std::min(c.least.output_bytes, c.most.output_bytes),
                    std::max(c.least.output_bytes, c.most.output_bytes))})
        cells.push_back(std::move(cell));
      table.row(std::move(cells));
      first = false;
    }
  }
  table.print(out);
}

}  // namespace s2t
