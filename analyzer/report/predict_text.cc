// `predict --format text`: a summary per group and phase first, then the events, then why.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analyzer/base/text.h"
#include "analyzer/base/unicode.h"
#include "analyzer/program/listing.h"
#include "analyzer/program/tally.h"
#include "analyzer/report/header_text.h"
#include "analyzer/report/report.h"
#include "analyzer/report/summary_text.h"
#include "analyzer/report/table.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

constexpr Count kMostListed = 200;  // events that a text report lists unasked
constexpr auto kRight = Column::Kind::right;
constexpr auto kFlexible = Column::Kind::flexible;
constexpr auto kWrapped = Column::Kind::wrapped;

struct Page {
  const Program& program;
  const ReportOptions& options;
  const Selection& selection;
  std::ostream& out;

  void heading(std::string_view title, std::string_view note) const {
    out << "\n" << bold(title, options.color);
    if (!note.empty()) out << " (" << note << ")";
    out << "\n";
  }
  const std::string& family(const Event& e) const { return program.families.at(e.family).name; }
};

// ---- events

std::string moved(const Event& e) {
  std::string shape;
  for (const int64_t d : e.shape) shape += (shape.empty() ? "" : ",") + std::to_string(d);
  return fmt::format("{}[{}]", info(e.dtype).brief, shape);
}

// The words for the few sets of ranks that many events have.
class RankWords {
 public:
  explicit RankWords(const Mesh& mesh) : mesh_(mesh) {}
  const std::string& operator()(const RankSet& set) {
    for (const auto& [known, text] : known_)
      if (known == set) return text;
    known_.emplace_back(set, words(set, mesh_));
    return known_.back().second;
  }

 private:
  const Mesh& mesh_;
  std::vector<std::pair<RankSet, std::string>> known_;
};

// "0 to 2", "2 from 0", and above 64 ranks "pp=0 to +1".
std::string who(RankWords& words_of, const Event& e) {
  std::string text = words_of(e.ranks);
  if (!e.peer && !e.peer_offset) return text == "all" ? "" : text;
  text += e.op == Collective::recv ? " from " : " to ";
  return text + (e.peer ? std::to_string(e.peer->value) : fmt::format("{:+}", *e.peer_offset));
}

void print_why(const Page& page, const std::map<size_t, std::vector<int64_t>>& ids_of_cause) {
  page.heading("Why", "more: shape2trace explain MODEL EVENT");
  std::vector<std::pair<int64_t, size_t>> order;
  for (const auto& [cause, ids] : ids_of_cause) order.emplace_back(ids.front(), cause);
  std::sort(order.begin(), order.end());
  Table table({{"events"}, {"because", kWrapped}});
  for (const auto& [first, cause] : order)
    table.row({some_of(ids_of_cause.at(cause), 24), page.program.causes.at(cause).why});
  table.print(page.out);
}

// All-to-all rows by peer of the group.
struct Rows {
  std::vector<int64_t> ids;
  std::string ranks;
  Splits splits;
};

std::string counts_text(const std::vector<Count>& rows) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(rows.size(), kShown); ++i)
    text += (i ? " " : "") + commas(rows[i]);
  if (rows.size() > kShown) text += fmt::format(" and {} more", rows.size() - kShown);
  return text;
}

void add_rows(std::vector<Rows>& all, std::string ranks, const Event& e) {
  for (Rows& rows : all)
    if (rows.ranks == ranks && rows.splits == *e.splits) return rows.ids.push_back(e.id);
  all.push_back({{e.id}, std::move(ranks), *e.splits});
}

void print_splits(const Page& page, const std::vector<Rows>& all) {
  if (all.empty()) return;
  page.heading("All-to-all splits", "rows to and from each rank of the group, in its order");
  Table table({{"events", kFlexible},
               {"ranks", kFlexible},
               {"elements of a row", kRight},
               {"sends", kFlexible},
               {"receives", kFlexible}});
  for (const Rows& rows : all)
    table.row({some_of(rows.ids, 24), rows.ranks, commas(rows.splits.row_elements),
               counts_text(rows.splits.send), counts_text(rows.splits.recv)});
  table.print(page.out);
}

// Launches of more than one message.
std::set<int64_t> shared_batches(const Page& page) {
  std::set<int64_t> once, shared;
  for_each_event(page.program, [&](const Event& e) {
    if (e.batch >= 0 && selects(page.selection, page.program, e) && !once.insert(e.batch).second)
      shared.insert(e.batch);
  });
  return shared;
}

void print_events(const Page& page) {
  Table table({{"id", kRight},
               {"phase"},
               {"mb", kRight},
               {"batch", kRight},
               {"operation"},
               {"group"},
               {"ranks", kFlexible},
               {"tensor", kFlexible},
               {"local input", Column::Kind::left, true},
               {"input B", kRight},
               {"output B", kRight},
               {"wire B", kRight}});
  std::map<size_t, std::vector<int64_t>> ids_of_cause;
  std::vector<Rows> splits;
  const bool microbatches = page.program.microbatches > 1;
  const std::set<int64_t> batches = shared_batches(page);
  RankWords words_of(page.program.mesh);
  for_each_event(page.program, [&](const Event& e) {
    if (!selects(page.selection, page.program, e)) return;
    ids_of_cause[e.cause].push_back(e.id);
    if (e.splits) add_rows(splits, who(words_of, e), e);
    const bool own = page.selection.rank && !e.peer && !e.peer_offset;  // the heading says whose
    table.row({std::to_string(e.id), std::string(to_string(e.phase)),
               microbatches && e.microbatch ? std::to_string(*e.microbatch) : "",
               batches.count(e.batch) ? std::to_string(e.batch) : "", std::string(info(e.op).name),
               page.family(e), own ? "" : who(words_of, e), subject(e), moved(e),
               commas(e.volume.input_bytes), commas(e.volume.output_bytes),
               commas(e.volume.wire_bytes)});
  });
  if (table.empty()) return;
  page.heading("Events", page.selection.rank
                             ? fmt::format("of rank {} in its order", page.selection.rank->value)
                             : "in issue order; bytes of one rank and call");
  table.print(page.out);
  print_splits(page, splits);
  print_why(page, ids_of_cause);
}

// Few enough to be read unasked.
bool few(const Page& page, Count events) {
  const bool small = page.program.mesh.world() <= kExplicitRanks || !page.selection.all();
  return small && events <= kMostListed;
}

void print_unlisted(const Page& page, Count events) {
  page.out << "\n";
  const std::string more = page.selection.all()
                               ? "--expand lists all; --rank R, --stage S and --module M choose."
                               : "--expand lists all of them.";
  for (const std::string& line :
       wrapped(fmt::format("{} events are not listed: {}", commas(events), more), kPageWidth))
    page.out << line << "\n";
}

// ---- the rest

void print_pruned(const Page& page) {
  Table table({{"id"},
               {"phase"},
               {"operation"},
               {"group"},
               {"tensor", kFlexible},
               {"saved input B", kRight},
               {"because", kWrapped}});
  for (const Pruned& p : page.program.pruned) {
    if (!selects(page.selection, page.program, p.event)) continue;
    table.row({p.id, std::string(to_string(p.event.phase)), std::string(info(p.event.op).name),
               page.family(p.event), p.event.tensor, commas(p.event.volume.input_bytes),
               p.because});
  }
  if (table.empty()) return;
  page.heading("Pruned", "would run if the value needed a gradient");
  table.print(page.out);
}

void print_loads(const Page& page) {
  if (page.program.loads.empty()) return;
  page.heading("Expert load", "rows that each rank of the axis receives, one layer and microbatch");
  Table table({{"routing", kFlexible},
               {"axis"},
               {"rows by coordinate", kFlexible},
               {"hottest"},
               {"most/least", kRight},
               {"dropped", kRight}});
  for (const Load& load : page.program.loads)
    table.row({load.routing, load.axis, counts_text(load.rows),
               fmt::format("{} {}", load.axis, load.hottest),
               std::isinf(load.ratio) ? "no rows" : fmt::format("{:.3g}", load.ratio),
               commas(load.dropped)});
  table.print(page.out);
}

void print_remarks(const Page& page) {
  if (page.program.remarks.empty()) return;
  page.heading("Remarks", "");
  for (const Remark& remark : page.program.remarks) {
    const std::string text = fmt::format("{} [{}]", one_line(remark.text), remark.slug);
    std::string_view lead = "  - ";
    for (const std::string& line : wrapped(text, kPageWidth - lead.size())) {
      page.out << lead << line << "\n";
      lead = "    ";
    }
  }
}

void print_fingerprint(const Page& page) {
  page.heading("NCCL kernels per rank", "");
  std::vector<Column> columns{{"ranks", kFlexible}};
  for (const std::string_view name : kernel_names()) columns.push_back({std::string(name), kRight});
  columns.push_back({"total", kRight});
  Table table(std::move(columns));
  const auto add = [&](std::string ranks, const RankClass& c) {
    std::vector<std::string> cells{std::move(ranks)};
    Count total = 0;
    for (const Count n : c.kernels) {
      cells.push_back(commas(n));
      total += n;
    }
    cells.push_back(commas(total));
    table.row(std::move(cells));
  };
  if (page.options.rank)
    add(std::to_string(page.options.rank->value), class_of(page.program, *page.options.rank));
  else
    for (const RankClass& c : merge_alike(rank_classes(page.program), page.program.mesh))
      if (!page.selection.stage || on_stage(c.ranks, page.program, *page.selection.stage))
        add(words(c.ranks, page.program.mesh), c);
  table.print(page.out);
}

}  // namespace

void write_predict_text(const Program& program, const ReportOptions& options, std::ostream& out) {
  const Selection selection = selection_of(program, options);
  const Page page{program, options, selection, out};
  const SummaryText summary{program, selection, out, options.color};
  print_title(program, out, options.color);
  print_mesh(program, out, options.color);
  print_groups(program, out, options.color);
  print_pipeline(program, out, options.color);
  summary.print_groups();
  const Count events = count_events(program, selection);
  const bool asked = options.expand || (selection.rank && !options.summary);
  const bool listed = asked || (!options.summary && few(page, events));
  if (options.summary || !few(page, events)) {
    summary.print_owners();
    summary.print_totals();
    summary.print_modules();
  }
  if (listed)
    print_events(page);
  else
    print_unlisted(page, events);
  print_pruned(page);
  print_loads(page);
  print_remarks(page);
  if (selection.module.empty()) print_fingerprint(page);
}

}  // namespace s2t
