#include "analyzer/report/folding.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/base/unicode.h"
#include "analyzer/program/owner.h"
#include "analyzer/report/table.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

constexpr size_t kLongestPeriod = 400;  // ops of one layer

std::string look_of(const Mark& m) {
  return fmt::format("|{}.{}.{}.{}.{}.{}.{}.{}", static_cast<int>(m.event->phase),
                     static_cast<int>(m.event->op), m.event->family, m.least, m.most, m.calls,
                     m.tensors, m.pruned != nullptr);
}

bool same_looks(const std::vector<Mark>& a, const std::vector<Mark>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Mark& x, const Mark& y) { return look_of(x) == look_of(y); });
}

// "layers" -> "layer".
std::string one_of(std::string stem) {
  const bool plural = stem.size() > 2 && stem.back() == 's' && stem[stem.size() - 2] != 's';
  if (plural) stem.pop_back();
  return stem;
}

}  // namespace

Folding::Folding(const Program& program, const Marks& marks, std::vector<int32_t> ops)
    : picture_(program.picture),
      marks_(marks),
      staged_(program.stages.size() > 1),
      ops_(std::move(ops)) {
  stands_for_.resize(picture_.ops.size());
  frame_.assign(picture_.ops.size(), -1);
  stage_frame_ = frame_;
  for (size_t o = 0; o < stands_for_.size(); ++o) stands_for_[o] = static_cast<int32_t>(o);
  for (size_t i = 0; i < ops_.size(); ++i) look(i);
  fold_stages();
}

// Everything that alike ops agree on but where their inputs come from.
void Folding::look(size_t place) {
  const PictureOp& op = at(place);
  places_[ops_[place]] = place;
  std::string text = op.kind;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const PictureValue& v = value(op.inputs[i]);
    text += fmt::format("|{}/{}/{}/{}/{}", words(v.shape), v.layout, op.consumed[i],
                        static_cast<int>(v.dtype), v.parameter);
  }
  for (const Mark& m : marks_.at[static_cast<size_t>(ops_[place])]) text += look_of(m);
  looks_.push_back(seen_.emplace(text, seen_.size()).first->second);
}

// Inputs come from the same distance, from the same value, or from outside.
bool Folding::alike(size_t i, size_t j) const {
  if (looks_[i] != looks_[j] || at(i).inputs.size() != at(j).inputs.size()) return false;
  for (size_t k = 0; k < at(i).inputs.size(); ++k) {
    const int32_t a = at(i).inputs[k], b = at(j).inputs[k];
    if (a == b || value(a).parameter) continue;
    const auto from = places_.find(value(a).producer), to = places_.find(value(b).producer);
    if (from == places_.end() || to == places_.end()) continue;
    if (i - from->second != j - to->second) return false;
  }
  return true;
}

bool Folding::same_stage(Span a, Span b) const {
  const size_t n = a.second - a.first;
  if (n != b.second - b.first) return false;
  const auto x = static_cast<size_t>(at(a.first).stage), y = static_cast<size_t>(at(b.first).stage);
  if (!same_looks(marks_.buckets.at(x), marks_.buckets.at(y))) return false;
  if (!same_looks(marks_.batch.at(x), marks_.batch.at(y))) return false;
  for (size_t i = 0; i < n; ++i)
    if (!alike(a.first + i, b.first + i)) return false;
  return true;
}

void Folding::fold_stages() {
  std::vector<Span> stages;
  for (size_t i = 0; i < ops_.size(); ++i) {
    if (i == 0 || at(i).stage != at(i - 1).stage) stages.push_back({i, i});
    stages.back().second = i + 1;
  }
  std::vector<bool> folded(stages.size());
  for (size_t s = 0; s < stages.size(); ++s) {
    if (folded[s]) continue;
    std::vector<int64_t> numbers{at(stages[s].first).stage};
    std::vector<size_t> same;
    for (size_t t = s + 1; t < stages.size(); ++t)
      if (!folded[t] && same_stage(stages[s], stages[t])) {
        folded[t] = true;
        same.push_back(t);
        numbers.push_back(at(stages[t].first).stage);
      }
    fold_stage(stages[s], numbers);
    for (const size_t t : same)
      for (size_t i = 0; i < stages[s].second - stages[s].first; ++i)
        replace(stages[t].first + i, stages[s].first + i);
  }
}

void Folding::fold_stage(Span span, const std::vector<int64_t>& numbers) {
  int outer = -1;
  if (staged_) {
    outer = static_cast<int>(frames_.size());
    frames_.push_back({numbers.size() == 1
                           ? fmt::format("stage {}", numbers[0])
                           : fmt::format("stages {}: {} alike", ranges(numbers), numbers.size()),
                       -1});
  }
  for (size_t i = span.first; i < span.second; ++i)
    frame_of(i) = stage_frame_[static_cast<size_t>(ops_[i])] = outer;
  size_t done = span.first;
  for (const Run& run : find_runs(span.first, span.second, kLongestPeriod,
                                  [this](size_t i, size_t j) { return alike(i, j); })) {
    frame_layers({done, run.first}, outer);
    fold_run(run, outer);
    done = run.end();
  }
  frame_layers({done, span.second}, outer);
}

// What is not folded: a frame for the ops of one layer, if their module says that they are of one.
void Folding::frame_layers(Span span, int outer) {
  for (size_t i = span.first; i < span.second; ++i) {
    const Block block = block_of(at(i).module);
    if (!block.number) continue;
    const bool goes_on = i > span.first && block_of(at(i - 1).module) == block;
    if (!goes_on)
      frames_.push_back(
          {shortened(one_line(one_of(block.stem)), 40) + " " + std::to_string(*block.number),
           outer});
    frame_of(i) = static_cast<int>(frames_.size()) - 1;
  }
}

void Folding::fold_run(const Run& run, int outer) {
  const auto inner = static_cast<int>(frames_.size());
  frames_.push_back({run_title(run), outer});
  for (size_t i = run.first; i < run.first + run.period; ++i) frame_of(i) = inner;
  for (size_t i = run.first + run.period; i < run.end(); ++i)
    replace(i, run.first + (i - run.first) % run.period);
}

void Folding::replace(size_t place, size_t by) {
  stands_for_[static_cast<size_t>(ops_[place])] = stands_for(ops_[by]);
}

std::string Folding::run_title(const Run& run) const {
  const auto first = layer_of(at(run.first)), last = layer_of(at(run.end() - 1));
  std::string title = fmt::format("{} alike", run.times);
  if (first && last && *last - *first + 1 == static_cast<int64_t>(run.times))
    title = fmt::format("layers {} to {}: ", *first, *last) + title;
  return title;
}

}  // namespace s2t
