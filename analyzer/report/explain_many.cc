#include "analyzer/report/explain_many.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/base/text.h"
#include "analyzer/base/unicode.h"
#include "analyzer/report/program_json.h"
#include "analyzer/report/table.h"
#include "analyzer/report/tallied.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

constexpr auto kRight = Column::Kind::right;
constexpr auto kFlexible = Column::Kind::flexible;
constexpr auto kWrapped = Column::Kind::wrapped;
constexpr size_t kMostReasons = 60;

void heading(std::string_view title, std::string_view note, bool color, std::ostream& out) {
  out << "\n" << bold(title, color) << " (" << note << ")\n";
}

// ---- how many

// "in each of 4 microbatches", "once per step".
std::string how_often(const Program& program, int64_t times) {
  if (times == 1) return "once per step";
  if (times == program.microbatches) return fmt::format("in each of {} microbatches", times);
  return fmt::format("{} times per step", times);
}

// "backward (regather)": the phase, and the cause where the phase does not go without saying.
std::string part_of(const Counted& what) {
  const std::string phase(to_string(what.phase));
  switch (what.cause) {
    case CauseKind::regather:
    case CauseKind::parameter_gather:
    case CauseKind::framework:
      return fmt::format("{} ({})", phase, to_string(what.cause));
    default:
      return phase;
  }
}

// The sum of rows that differ in phase and cause only.
struct Sum {
  std::vector<std::pair<std::string, Count>> parts;
  Count calls = 0;

  void add(const std::string& part, Count n) {
    calls += n;
    for (auto& [name, count] : parts)
      if (name == part) {
        count += n;
        return;
      }
    parts.emplace_back(part, n);
  }
  std::string text() const {
    std::string list;
    for (const auto& [name, n] : parts)
      list += (list.empty() ? "" : " + ") + fmt::format("{} {}", commas(n), name);
    return list;
  }
};

// "layers 3: 6 all_gather over tp in each of 4 microbatches = 2 forward + 4 backward".
void print_sums(const Program& program, const std::vector<CountedRow>& rows, std::ostream& out) {
  using Name = std::pair<std::string, std::string>;  // what stands before the number, and behind it
  std::vector<Name> order;
  std::map<Name, Sum> sums;
  for (const CountedRow& row : rows) {
    const Name name{
        one_line(modules_text(row)),
        fmt::format("{} over {} {}", info(row.what.op).name,
                    program.families.at(row.what.family).name, how_often(program, row.what.times))};
    const auto [at, fresh] = sums.try_emplace(name);
    if (fresh) order.push_back(name);
    at->second.add(part_of(row.what), row.calls);
  }
  for (const Name& name : order) {
    const Sum& sum = sums.at(name);
    const std::string text =
        fmt::format("{}: {} {} = {}", name.first, commas(sum.calls), name.second, sum.text());
    std::string_view lead = "  ";
    for (const std::string& line : wrapped(text, kPageWidth - 4)) {
      out << lead << line << "\n";
      lead = "    ";
    }
  }
}

void print_counts(const Program& program, const std::vector<CountedRow>& rows, bool color,
                  std::ostream& out) {
  heading("Counts", "calls of one of the modules, all stages together, each of the times per step",
          color, out);
  Table table({{"modules", kFlexible},
               {"phase"},
               {"operation"},
               {"group"},
               {"calls", kRight},
               {"times", kRight},
               {"cause"},
               {"which is", kWrapped}});
  for (const CountedRow& row : rows)
    table.row({modules_text(row), std::string(to_string(row.what.phase)),
               std::string(info(row.what.op).name), program.families.at(row.what.family).name,
               commas(row.calls), commas(static_cast<Count>(row.what.times)),
               std::string(to_string(row.what.cause)), std::string(meaning(row.what.cause))});
  table.print(out);
}

// ---- why each

// `name` followed by no digit -> `by`.
void rename(std::string& text, const std::string& name, const std::string& by) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
    const size_t end = at + name.size();
    const bool whole = (end == text.size() || text[end] < '0' || text[end] > '9') &&
                       (at == 0 || text[at - 1] == ' ' || text[at - 1] == '"');
    if (whole) text.replace(at, name.size(), by);
    at += whole ? by.size() : name.size();
  }
}

// "layers.3.attn.q" -> "layers.N.attn.q", and its neighbour "layers.2." -> "layers.N-1.".
std::string of_any_layer(std::string text, const Block& block) {
  if (!block.number) return text;
  for (const int64_t off : {0, -1, 1})
    for (const std::string separator : {".", "_", ""})
      rename(text, block.stem + separator + std::to_string(*block.number + off),
             block.stem + separator +
                 (off == 0  ? "N"
                  : off < 0 ? "N-1"
                            : "N+1"));
  return text;
}

struct Reason {
  const Event* event;
  std::vector<int64_t> ids, numbers;
  std::string tensor, why;  // of any layer
};

std::vector<Reason> reasons_of(const Program& program, const Answer& answer) {
  using Key = std::tuple<Phase, Collective, size_t, std::string, std::string>;
  std::map<Key, size_t> index;
  std::vector<Reason> reasons;
  for (const Event& e : answer.events) {
    const Block block = block_of(e);
    const std::string tensor = of_any_layer(subject(e), block),
                      why = of_any_layer(program.causes.at(e.cause).why, block);
    const auto [at, fresh] =
        index.try_emplace({e.phase, e.op, e.family, tensor, why}, reasons.size());
    if (fresh) reasons.push_back({&e, {}, {}, tensor, why});
    Reason& reason = reasons[at->second];
    reason.ids.push_back(e.id);
    if (block.number) reason.numbers.push_back(*block.number);
  }
  for (Reason& r : reasons) {
    std::sort(r.numbers.begin(), r.numbers.end());
    r.numbers.erase(std::unique(r.numbers.begin(), r.numbers.end()), r.numbers.end());
    std::sort(r.ids.begin(), r.ids.end());
  }
  return reasons;
}

void print_reasons(const Program& program, const Answer& answer, bool color, std::ostream& out) {
  if (answer.events.empty()) return;
  heading("Why", "all about one: shape2trace explain MODEL EVENT", color, out);
  const std::vector<Reason> reasons = reasons_of(program, answer);
  Table table({{"events"},
               {"N", kFlexible},
               {"phase"},
               {"operation"},
               {"group"},
               {"tensor", kFlexible},
               {"because", kWrapped}});
  for (size_t i = 0; i < std::min(reasons.size(), kMostReasons); ++i) {
    const Reason& r = reasons[i];
    const bool one = r.numbers.size() < 2;
    table.row({some_of(r.ids, 16), one ? "" : ranges(r.numbers),
               std::string(to_string(r.event->phase)), std::string(info(r.event->op).name),
               program.families.at(r.event->family).name, one ? subject(*r.event) : r.tensor,
               one ? program.causes.at(r.event->cause).why : r.why});
  }
  table.print(out);
  if (reasons.size() > kMostReasons)
    out << fmt::format("  and {} more; name a module, a phase or a group besides\n",
                       commas(reasons.size() - kMostReasons));
}

void print_pruned(const Program& program, const Answer& answer, bool color, std::ostream& out) {
  if (answer.pruned.empty()) return;
  heading("Pruned", "would run if the value needed a gradient", color, out);
  Table table({{"id"}, {"operation"}, {"group"}, {"tensor", kFlexible}, {"because", kWrapped}});
  for (const Pruned* p : answer.pruned)
    table.row({p->id, std::string(info(p->event.op).name),
               program.families.at(p->event.family).name, p->event.tensor, p->because});
  table.print(out);
}

void write_counts(JsonWriter& json, const Program& program, const std::vector<CountedRow>& rows) {
  json.key("counts").array(JsonWriter::kLines);
  for (const CountedRow& row : rows) {
    json.object().field("module", row.what.stem).field("numbers", row.numbers);
    json.field("phase", to_string(row.what.phase)).field("op", info(row.what.op).name);
    json.field("family", program.families.at(row.what.family).name);
    json.field("rule", to_string(row.what.cause)).field("calls", row.calls);
    json.field("times", row.what.times).end();
  }
  json.end();
}

}  // namespace

void print_effects(const std::vector<Effect>& effects, bool color, std::ostream& out) {
  if (effects.empty()) return;
  heading("Switches", "set otherwise, each of these changes it: " + effects.front().setting.how,
          color, out);
  Table table({{"switch"}, {"is"}, {"otherwise"}, {"then", kWrapped}, {"meaning", kWrapped}});
  std::string last;
  for (const Effect& e : effects) {
    const Setting& s = e.setting;
    const bool again = s.name == last;
    table.row({again ? "" : s.name, again ? "" : s.value, s.otherwise, text_of(e),
               again ? "" : s.meaning});
    last = s.name;
  }
  table.print(out);
}

void print_answer(const Program& program, const ReportOptions& options, const Answer& answer,
                  std::ostream& out) {
  const std::vector<CountedRow> rows = counted(program, answer.events);
  out << bold(one_line(join(options.words, " ")), options.color) << " (" << one_line(program.model)
      << ")\n\n";
  print_sums(program, rows, out);
  if (answer.events.empty()) out << "  only pruned collectives are called so\n";
  if (!rows.empty()) print_counts(program, rows, options.color, out);
  print_reasons(program, answer, options.color, out);
  print_pruned(program, answer, options.color, out);
}

void write_answer(JsonWriter& json, const Program& program, const Answer& answer) {
  write_counts(json, program, counted(program, answer.events));
  json.key("events").array(JsonWriter::kLines);
  for (const Event& e : answer.events) write_event(json, program, e);
  json.end().key("pruned").array(JsonWriter::kLines);
  for (const Pruned* p : answer.pruned) write_pruned(json, program, *p);
  json.end();
}

void write_effects(JsonWriter& json, const std::vector<Effect>& effects) {
  json.key("switches").array(JsonWriter::kLines);
  for (const Effect& d : effects) {
    json.object().field("switch", d.setting.name).field("value", d.setting.value);
    json.field("otherwise", d.setting.otherwise).field("resized", d.resized);
    json.key("calls").array();
    for (const auto& [key, n] : d.then)
      json.object().field("op", key.first).field("family", key.second).field("calls", n).end();
    json.end().end();
  }
  json.end();
}

}  // namespace s2t
