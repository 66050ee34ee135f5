// `render` and `schedule` as rows of the table of reports.
#include "analyzer/report/diagram.h"
#include "analyzer/report/report.h"
#include "analyzer/report/timeline.h"
#include "analyzer/report/words.h"

namespace s2t {
void write_render_dot(const Program& program, const ReportOptions& options, std::ostream& out) {
  out << diagram_dot(draw_program(program, options), program.mesh);
}
void write_render_mermaid(const Program& program, const ReportOptions& options, std::ostream& out) {
  out << diagram_mermaid(draw_program(program, options), program.mesh);
}

void write_schedule_text(const Program& program, const ReportOptions&, std::ostream& out) {
  out << timeline_text(named_timeline(program));
}
void write_schedule_json(const Program& program, const ReportOptions&, std::ostream& out) {
  out << timeline_json(named_timeline(program));
}
void write_schedule_chrome(const Program& program, const ReportOptions&, std::ostream& out) {
  out << timeline_chrome(named_timeline(program));
}
void write_schedule_svg(const Program& program, const ReportOptions&, std::ostream& out) {
  out << timeline_svg(named_timeline(program));
}

}  // namespace s2t
