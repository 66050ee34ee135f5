#include "analyzer/report/header_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/base/text.h"
#include "analyzer/base/unicode.h"
#include "analyzer/program/listing.h"
#include "analyzer/report/table.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

std::string plural(Count n, const std::string& word, const std::string& ending = "s") {
  return commas(n) + " " + word + (n == 1 ? "" : ending);
}

std::string sizes(const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis& a : axes)
    text += fmt::format("{}{} {}", text.empty() ? "" : " x ", a.name, a.size);
  return text;
}

// "rank = 4 dp + 2 pp + tp": the stride of each axis in rank numbers.
std::string rank_formula(const Mesh& mesh, const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis& axis : axes) {
    if (axis.atoms == 0) continue;
    int64_t stride = mesh.world();
    for (size_t i = 0; i < mesh.atoms().size(); ++i)
      if (contains(axis.atoms, AtomIndex(i))) stride = std::min(stride, mesh.atoms()[i].stride);
    text += text.empty() ? "rank = " : " + ";
    text += stride == 1 ? axis.name : fmt::format("{} {}", stride, axis.name);
  }
  return text;
}

std::string sizes_and_formula(const Mesh& mesh, const std::vector<Axis>& axes) {
  const std::string formula = rank_formula(mesh, axes);
  return sizes(axes) + (formula.empty() ? "" : ";  " + formula);
}

// The first group, of which no more is listed than is shown.
std::string first_ranks(const Mesh& mesh, const Family& family) {
  constexpr int64_t kShown = 8;
  const int64_t size = mesh.group_size(family);
  if (size <= kShown || !family.members.empty())
    return rank_list(first_group(mesh, family), kShown);
  const auto rank_at = [&](int64_t place) {
    int64_t rank = 0;
    for (size_t i = mesh.atoms().size(); i-- > 0;)
      if (const Atom& atom = mesh.atoms()[i]; contains(family.atoms, AtomIndex(i))) {
        rank += place % atom.size * atom.stride;
        place /= atom.size;
      }
    return rank;
  };
  return fmt::format("[{},{},{}, ... {}]", rank_at(0), rank_at(1), rank_at(2), rank_at(size - 1));
}

std::string group_ranks(const Mesh& mesh, const Family& family) {
  if (mesh.world() > kExplicitRanks) {
    const auto stride = mesh.stride(family);
    const std::string spacing = stride ? fmt::format("stride {}", *stride) : "uneven spacing";
    return fmt::format("{}, first {}", spacing, first_ranks(mesh, family));
  }
  std::string text;
  for (const auto& group : mesh.groups(family))
    text += (text.empty() ? "" : " ") + rank_list(group, 64);
  return text;
}

}  // namespace

void print_title(const Program& program, std::ostream& out, bool color) {
  out << bold(one_line(program.model), color) << ": "
      << plural(static_cast<Count>(program.mesh.world()), "rank") << ", "
      << plural(program.parameters, "parameter") << "\n";
}

void print_mesh(const Program& program, std::ostream& out, bool color) {
  out << "\n" << bold("Mesh", color) << " (slowest axis first)\n";
  const auto dense = dense_axes(program.mesh);
  out << "  " << sizes_and_formula(program.mesh, dense) << "\n";
  if (const auto expert = expert_axes(program.mesh); !expert.empty())
    out << "  experts: " << sizes_and_formula(program.mesh, expert) << "\n";
}

void print_groups(const Program& program, std::ostream& out, bool color) {
  if (program.families.empty()) return;
  out << "\n" << bold("Process groups", color) << " (in creation order)\n";
  Table table({{"group"},
               {"axes"},
               {"size", Column::Kind::right},
               {"count", Column::Kind::right},
               {"ranks", Column::Kind::wrapped}});
  for (const Family& family : program.families) {
    const std::string axes = join(family.axes, " ");
    table.row({family.name, axes == family.name ? "" : axes,
               std::to_string(program.mesh.group_size(family)),
               commas(static_cast<Count>(program.mesh.group_count(family))),
               group_ranks(program.mesh, family)});
  }
  table.print(out);
}

void print_pipeline(const Program& program, std::ostream& out, bool color) {
  if (program.pipeline_axis.empty()) return;
  out << "\n"
      << bold("Pipeline", color) << "\n  " << program.pipeline_axis << ": "
      << plural(program.stages.size(), "stage") << " on "
      << plural(static_cast<Count>(program.pipeline_ranks), "pipeline rank") << ", "
      << plural(static_cast<Count>(program.microbatches), "microbatch", "es");
  if (const auto& t = program.timeline) {
    out << fmt::format(",\n  schedule {}, bubble {:.4g} of the ideal time", t->schedule,
                       t->bubble());
    std::string held;
    for (const TimelineRow& row : t->rows)
      held += (held.empty() ? "" : " ") + std::to_string(row.peak_activations);
    out << fmt::format(",\n  activations held at most, in microbatches{}, rank by rank: {}",
                       t->chunks > 1 ? " of a chunk" : "", held);
  }
  out << "\n";
}

}  // namespace s2t
