#include "tests/textbook/step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analyzer/analyze.h"
#include "analyzer/io/model_json.h"
#include "analyzer/program/listing.h"
#include "analyzer/program/tally.h"

namespace s2t {
namespace {

std::string numbers_of(const Event& e) {
  const Volume& v = e.volume;
  if (e.op == Collective::send) return fmt::format(" to {} {}", e.peer->value, v.input_bytes);
  if (e.op == Collective::recv) return fmt::format(" from {} {}", e.peer->value, v.output_bytes);
  std::string text = fmt::format(" {}>{}", v.input_bytes, v.output_bytes);
  if (e.splits)
    text +=
        fmt::format(" [{}]>[{}]", fmt::join(e.splits->send, ","), fmt::join(e.splits->recv, ","));
  return text;
}

std::string line_of(const Program& program, const Event& e) {
  std::string text = fmt::format("{} {} {} {}{}", to_string(e.phase), info(e.op).name,
                                 program.families[e.family].name, e.tensor, numbers_of(e));
  if (program.microbatches > 1 && e.microbatch) text += fmt::format(" #{}", *e.microbatch);
  return text;
}

}  // namespace

Program analyze_model(const std::string& name) {
  return analyze(load_model(fmt::format("{}/models/{}.json", S2T_SOURCE_DIR, name)));
}

std::vector<std::string> lines_of(const Program& program, Rank rank) {
  std::vector<std::string> lines;
  for (const Event& e : events_of(program, rank)) lines.push_back(line_of(program, e));
  return lines;
}

std::vector<std::string> lines_of(const Program& program, Rank rank, Phase phase) {
  std::vector<std::string> lines;
  for (const Event& e : events_of(program, rank))
    if (e.phase == phase) lines.push_back(line_of(program, e));
  return lines;
}

std::vector<std::string> pruned_lines(const Program& program) {
  std::vector<std::string> lines;
  for (const Pruned& p : program.pruned)
    lines.push_back(fmt::format("{} {} {} {} {}: {}", to_string(p.event.phase),
                                info(p.event.op).name, program.families[p.event.family].name,
                                p.event.tensor, p.event.volume.input_bytes, p.because));
  return lines;
}

std::map<std::string, int> kernels_of(const Program& program, Rank rank) {
  const RankClass alike = class_of(program, rank);
  std::map<std::string, int> kernels;
  for (size_t i = 0; i < alike.kernels.size(); ++i)
    if (alike.kernels[i] > 0)
      kernels[std::string(kernel_names()[i])] = static_cast<int>(alike.kernels[i]);
  return kernels;
}

std::map<std::string, int> counts_of(const Program& program, Rank rank) {
  std::map<std::string, int> counts;
  for (const Event& e : events_of(program, rank))
    ++counts[fmt::format("{} {}", to_string(e.phase), info(e.op).name)];
  return counts;
}

std::vector<std::string> group_lines(const Program& program) {
  std::vector<std::string> lines;
  for (const Family& family : program.families) {
    std::string text = family.name + ":";
    for (const auto& group : program.mesh.groups(family)) {
      text += text.back() == ':' ? "" : " |";
      for (const Rank rank : group) text += fmt::format(" {}", rank.value);
    }
    lines.push_back(text);
  }
  return lines;
}

}  // namespace s2t
