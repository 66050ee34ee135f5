// `doctor`: which backends and outside programs are usable here, and why not.
#include <fmt/format.h>

#include "analyzer/cli/listing.h"
#include "analyzer/cli/outside.h"
#include "runtime/comm/backend.h"
#include "runtime/comm/witnesses.h"

namespace s2t {
namespace {

// Programs that we start; without one, only what it is for is missing.
struct Tool {
  std::string_view program;
  std::string_view purpose;
};
constexpr Tool kTools[] = {
    {"dot", "SVG and PNG of graphs (Graphviz)"},
    {"rsvg-convert", "PNG of groups (librsvg2-bin)"},
    {"mpirun", "starting the ranks of verify --backend mpi"},
};

std::vector<std::string> tool_row(const Tool& tool) {
  const bool found = !find_program(tool.program).empty();
  return {std::string(tool.program), "program", found ? "yes" : "no", std::string(tool.purpose),
          found ? "found" : "not found in PATH"};
}

std::vector<std::string> backend_row(const Backend& backend) {
  const Probe probe = backend.probe();
  const std::string usable = !probe.usable ? "no" : probe.stand_in ? "stand-in" : "yes";
  return {std::string(backend.name), "backend", usable, std::string(backend.summary), probe.why};
}

// A library that is there may still have nothing to watch: that is said with its backend.
std::vector<std::string> witness_row(const Witness& witness) {
  const std::string library = library_of(witness);
  const std::string because =
      library.empty() ? fmt::format("{} was not built, or not found here", witness.file) : library;
  return {std::string(witness.name), "witness", library.empty() ? "no" : "yes",
          fmt::format("of {}: {}", witness.backend, witness.sees), because};
}

}  // namespace

int run_doctor(const Arguments& arguments, std::ostream& out, std::ostream&) {
  Rows rows{{"name", "kind", "usable", "purpose", "because"}, {}};
  for (const Backend& b : backends()) rows.rows.push_back(backend_row(b));
  for (const Witness& w : witnesses()) rows.rows.push_back(witness_row(w));
  for (const Tool& t : kTools) rows.rows.push_back(tool_row(t));
  print_rows(rows, arguments, "shape2trace.doctor/1", {}, out);
  return kOk;
}

CommandTable inquiry_commands() {
  const auto formats = [] { return std::vector<std::string>{"text", "json"}; };
  return {
      {"list",
       {"KIND"},
       "what there is: ops schedules profiles models switches dtypes collectives backends formats "
       "errors",
       "shape2trace list ops",
       formats,
       {},
       run_list},
      {"doctor",
       {},
       "which backends and tools are usable here, and why not",
       "shape2trace doctor",
       formats,
       {},
       run_doctor},
  };
}

}  // namespace s2t
