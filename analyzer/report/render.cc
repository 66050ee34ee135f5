// `render` and `schedule` as rows of the table of reports.
#include "analyzer/base/diagnostics.h"
#include "analyzer/report/diagram.h"
#include "analyzer/report/report.h"
#include "analyzer/report/timeline.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

const Timeline& timeline_of(const Program& program) {
  if (!program.timeline) throw Fault("a program without a timeline has no schedule to print");
  return *program.timeline;
}

}  // namespace

void write_render_dot(const Program& program, const ReportOptions& options, std::ostream& out) {
  out << diagram_dot(draw_program(program, options), program.mesh);
}
void write_render_mermaid(const Program& program, const ReportOptions& options, std::ostream& out) {
  out << diagram_mermaid(draw_program(program, options), program.mesh);
}

void write_schedule_text(const Program& program, const ReportOptions&, std::ostream& out) {
  out << timeline_text(timeline_of(program));
}
void write_schedule_json(const Program& program, const ReportOptions&, std::ostream& out) {
  out << timeline_json(timeline_of(program));
}
void write_schedule_chrome(const Program& program, const ReportOptions&, std::ostream& out) {
  out << timeline_chrome(timeline_of(program));
}
void write_schedule_svg(const Program& program, const ReportOptions&, std::ostream& out) {
  out << timeline_svg(timeline_of(program));
}

}  // namespace s2t
