// The reports on a program, as a table: which command writes which format.
//
// A report is a function of the program and of what was asked; it writes to a stream and nothing
// else. A new one is one file and one row. Not known here: files, terminals, models.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/base/diagnostics.h"
#include "analyzer/program/program.h"

namespace s2t {

// A picture that would take too long to lay out, or did.
class TooMuchToDraw : public UserError {
 public:
  using UserError::UserError;
};

// A switch that could be set otherwise: "sequence_residual" is "regather", and could be "kept", by
// "--set SWITCH=VALUE".
struct Setting {
  std::string name, value, otherwise, meaning, how;
};
// Visits the step under every other setting, one at a time.
using OtherSettings =
    std::function<void(const std::function<void(const Setting&, const Program&)>&)>;

struct ReportOptions {
  std::optional<Rank> rank;         // only what this rank issues, in its order
  std::optional<int64_t> stage;     // predict: only what this pipeline coordinate issues
  std::string module;               // predict: only what belongs to it, a name or "layers.*.attn"
  std::vector<std::string> words;   // explain: "12", "p0", or what to look for: "layers.3" "tp"
  OtherSettings other_settings;     // explain: empty if there are none
  std::string phase, axis, layers;  // render: only these; "" or "forward", "tp", "2-5"
  size_t most_boxes = 0;            // render: more are an error; 0: any number
  // html: the graph as Graphviz drew it, or why it did not.
  std::string graph_svg, graph_missing;
  bool summary = false;  // one line for what repeats
  bool expand = false;   // every event, however many
  bool color = false;    // ANSI colours
};

struct Report {
  std::string_view command;  // "predict"
  std::string_view format;   // "text"
  void (*write)(const Program&, const ReportOptions&, std::ostream&);
  // The outside program that makes the format of what `write` writes; empty: none.
  std::string_view through = {};
};

// Of one command its default format comes first.
std::span<const Report> reports();
std::vector<std::string> report_formats(std::string_view command);

// Throws UserError (slug unknown-format) with what the command does offer.
const Report& find_report(std::string_view command, std::string_view format);

void write_predict_text(const Program&, const ReportOptions&, std::ostream&);
void write_predict_json(const Program&, const ReportOptions&, std::ostream&);
void write_predict_csv(const Program&, const ReportOptions&, std::ostream&);
void write_predict_chakra(const Program&, const ReportOptions&, std::ostream&);
void write_predict_aicb(const Program&, const ReportOptions&, std::ostream&);
void write_groups_text(const Program&, const ReportOptions&, std::ostream&);
void write_groups_json(const Program&, const ReportOptions&, std::ostream&);
void write_explain_text(const Program&, const ReportOptions&, std::ostream&);
void write_explain_json(const Program&, const ReportOptions&, std::ostream&);
void write_groups_mermaid(const Program&, const ReportOptions&, std::ostream&);
void write_groups_dot(const Program&, const ReportOptions&, std::ostream&);
void write_groups_svg(const Program&, const ReportOptions&, std::ostream&);
void write_render_dot(const Program&, const ReportOptions&, std::ostream&);
void write_render_html(const Program&, const ReportOptions&, std::ostream&);
void write_render_mermaid(const Program&, const ReportOptions&, std::ostream&);
void write_schedule_text(const Program&, const ReportOptions&, std::ostream&);
void write_schedule_json(const Program&, const ReportOptions&, std::ostream&);
void write_schedule_chrome(const Program&, const ReportOptions&, std::ostream&);
void write_schedule_svg(const Program&, const ReportOptions&, std::ostream&);

}  // namespace s2t
