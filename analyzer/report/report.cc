#include "analyzer/report/report.h"

#include <array>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

constexpr std::string_view kDotToSvg = "dot -Tsvg";
// By cairo alone: gd would take half the time, and make white 252 of 255 and two edges grey.
constexpr std::string_view kDotToPng = "dot -Tpng";
constexpr std::string_view kSvgToPng = "rsvg-convert --format=png --zoom=2";

constexpr std::array kReports{
    Report{"predict", "text", write_predict_text},
    Report{"predict", "json", write_predict_json},
    Report{"predict", "csv", write_predict_csv},
    Report{"predict", "chakra", write_predict_chakra},
    Report{"predict", "aicb", write_predict_aicb},
    Report{"groups", "text", write_groups_text},
    Report{"groups", "json", write_groups_json},
    Report{"groups", "mermaid", write_groups_mermaid},
    Report{"groups", "dot", write_groups_dot},
    Report{"groups", "svg", write_groups_svg},
    Report{"groups", "png", write_groups_svg, kSvgToPng},
    Report{"explain", "text", write_explain_text},
    Report{"explain", "json", write_explain_json},
    Report{"render", "dot", write_render_dot},
    Report{"render", "svg", write_render_dot, kDotToSvg},
    Report{"render", "png", write_render_dot, kDotToPng},
    Report{"render", "mermaid", write_render_mermaid},
    Report{"render", "html", write_render_html},
    Report{"schedule", "text", write_schedule_text},
    Report{"schedule", "json", write_schedule_json},
    Report{"schedule", "chrome", write_schedule_chrome},
    Report{"schedule", "svg", write_schedule_svg},
};

}  // namespace

std::span<const Report> reports() {
  return kReports;
}

std::vector<std::string> report_formats(std::string_view command) {
  std::vector<std::string> formats;
  for (const Report& r : kReports)
    if (r.command == command) formats.emplace_back(r.format);
  return formats;
}

const Report& find_report(std::string_view command, std::string_view format) {
  for (const Report& r : kReports)
    if (r.command == command && r.format == format) return r;
  const std::vector<std::string> formats = report_formats(command);
  throw UserError("shape2trace", {{"--format", "unknown format " + quoted(format),
                                   "one of " + quoted_list(formats), did_you_mean(format, formats),
                                   "unknown-format"}});
}

}  // namespace s2t
