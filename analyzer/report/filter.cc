#include "analyzer/report/filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "analyzer/base/text.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

[[noreturn]] void refuse(std::string flag, std::string found, std::string expected,
                         std::string advice, std::string slug) {
  throw UserError("shape2trace", {{std::move(flag), std::move(found), std::move(expected),
                                   std::move(advice), std::move(slug)}});
}

std::optional<Phase> phase_of(const std::string& word) {
  if (word.empty()) return std::nullopt;
  std::vector<std::string> names;
  for (const Phase p :
       {Phase::forward, Phase::backward, Phase::recompute, Phase::grad_sync, Phase::step}) {
    if (to_string(p) == word) return p;
    names.emplace_back(to_string(p));
  }
  refuse("--phase", "no phase is named " + quoted(word), "one of " + quoted_list(names),
         did_you_mean(word, names), "bad-option");
}

void check_axis(const Program& program, const std::string& axis) {
  const std::vector<std::string> names = program.mesh.axis_names();
  if (axis.empty() || std::find(names.begin(), names.end(), axis) != names.end()) return;
  refuse("--axis", "the mesh has no axis " + quoted(axis), "one of " + quoted_list(names),
         did_you_mean(axis, names), "unknown-axis");
}

int64_t layer_number(const std::string& digits, const std::string& text) {
  const bool good = !digits.empty() && digits.size() <= 9 &&
                    std::all_of(digits.begin(), digits.end(),
                                [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!good)
    refuse("--layers", quoted(text) + " is no range of layers", "\"3\" or \"2-5\"", "",
           "bad-option");
  return std::stoll(digits);
}

// "3" or "2-5".
std::optional<std::pair<int64_t, int64_t>> layer_range(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const size_t dash = text.find('-');
  const int64_t first = layer_number(text.substr(0, dash), text);
  const int64_t last =
      dash == std::string::npos ? first : layer_number(text.substr(dash + 1), text);
  if (last < first)
    refuse("--layers", quoted(text) + " ends before it begins", "the lower number first",
           fmt::format("Did you mean \"{}-{}\"?", last, first), "bad-option");
  return std::pair{first, last};
}

std::optional<int64_t> number_in(const std::string& text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) continue;
    size_t end = i;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    const bool stands_alone = end == text.size() || text[end] == '.' || text[end] == '_';
    if (stands_alone && end - i <= 9) return std::stoll(text.substr(i, end - i));
    i = end;
  }
  return std::nullopt;
}

// "layers 0-125": what there is, for those who asked for what there is not.
std::string layers_there_are(const GraphPicture& picture) {
  std::set<int64_t> all;
  for (const PictureOp& op : picture.ops)
    if (const auto layer = layer_of(op)) all.insert(*layer);
  if (all.empty()) return "numbers in the modules or names of ops; this model has none";
  return "layers " + ranges({all.begin(), all.end()});
}

}  // namespace

std::optional<int64_t> layer_of(const PictureOp& op) {
  const auto layer = number_in(op.module);
  return layer ? layer : number_in(op.name);
}

Filter::Filter(const Program& program, const ReportOptions& options)
    : program_(program),
      rank_(options.rank),
      phase_(phase_of(options.phase)),
      axis_(options.axis),
      layers_(layer_range(options.layers)),
      in_layers_(program.picture.ops.size(), true) {
  check_rank(program, rank_);
  check_axis(program, axis_);
  if (layers_) choose_layers(options);
}

void Filter::choose_layers(const ReportOptions& options) {
  const GraphPicture& picture = program_.picture;
  for (size_t o = 0; o < picture.ops.size(); ++o) {
    const PictureOp& op = picture.ops[o];
    const auto layer = layer_of(op);
    in_layers_[o] = layer && *layer >= layers_->first && *layer <= layers_->second;
    if (!in_layers_[o]) continue;
    names_.insert(op.name);
    for (const int32_t v : op.inputs)
      if (picture.values[static_cast<size_t>(v)].parameter)
        read_.insert(picture.values[static_cast<size_t>(v)].name);
  }
  if (names_.empty())
    refuse("--layers", "no op belongs to layers " + options.layers, layers_there_are(picture), "",
           "out-of-range");
}

bool Filter::wants(const Event& e) const {
  const std::vector<std::string>& axes = program_.families[e.family].axes;
  if (phase_ && e.phase != *phase_) return false;
  if (!axis_.empty() && std::find(axes.begin(), axes.end(), axis_) == axes.end()) return false;
  if (!layers_) return true;
  const auto is_read = [this](const std::string& name) { return read_.contains(name); };
  if (std::any_of(e.members.begin(), e.members.end(), is_read)) return true;
  const int32_t op = e.user >= 0    ? e.user
                     : e.value >= 0 ? program_.picture.values[static_cast<size_t>(e.value)].producer
                                    : -1;
  return op >= 0 ? in_layers_[static_cast<size_t>(op)] : e.value < 0 && names_.contains(e.node);
}

bool Filter::issues(const Event& e) const {
  return !rank_ || contains(e.ranks, program_.mesh, *rank_);
}

std::vector<int32_t> Filter::ops() const {
  std::optional<int64_t> coordinate;
  if (const auto atom = program_.mesh.pipeline_atom(); rank_ && atom)
    coordinate = program_.mesh.coordinate(*rank_, *atom);
  const auto lives_here = [&](int32_t stage) {
    return stage >= 0 && stage % program_.pipeline_ranks == *coordinate;
  };
  std::vector<int32_t> shown;
  for (size_t o = 0; o < program_.picture.ops.size(); ++o) {
    const PictureOp& op = program_.picture.ops[o];
    // A border is shown at both of its ends.
    const bool here =
        !coordinate || lives_here(op.stage) || (op.kind == "transfer" && lives_here(op.stage - 1));
    if (here && in_layers_[o]) shown.push_back(static_cast<int32_t>(o));
  }
  return shown;
}

std::string Filter::words() const {
  std::string text;
  if (phase_ || !axis_.empty())
    text = fmt::format("{}collectives{}", phase_ ? std::string(to_string(*phase_)) + " " : "",
                       axis_.empty() ? "" : " over " + axis_);
  if (layers_)
    text += fmt::format("{}{}", text.empty() ? "" : ", ",
                        layers_->first == layers_->second
                            ? fmt::format("layer {}", layers_->first)
                            : fmt::format("layers {} to {}", layers_->first, layers_->second));
  if (rank_) text += fmt::format("{}rank {}", text.empty() ? "" : ", ", rank_->value);
  return text.empty() ? "" : "only " + text;
}

Program Filter::narrowed() const {
  Program part = program_;
  const auto unwanted = [this](const Event& e) { return !wants(e); };
  for (Stage& stage : part.stages) {
    for (Segment* segment : {&stage.forward, &stage.backward})
      std::erase_if(segment->items,
                    [&](const Segment::Item& item) { return unwanted(item.event); });
    for (std::vector<Event>* events : {&stage.recv_activation, &stage.send_activation,
                                       &stage.recv_gradient, &stage.send_gradient})
      std::erase_if(*events, unwanted);
  }
  std::erase_if(part.after, unwanted);
  return part;
}

}  // namespace s2t
