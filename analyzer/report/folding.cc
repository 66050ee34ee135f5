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

std::string kind_of(const Mark& m) {
  return fmt::format("|{}.{}.{}.{}", static_cast<int>(m.event->phase),
                     static_cast<int>(m.event->op), m.event->family, m.pruned != nullptr);
}

std::string look_of(const Mark& m) {
  return kind_of(m) + fmt::format(".{}.{}.{}.{}", m.least, m.most, m.calls, m.tensors);
}

bool same(const std::vector<Mark>& a, const std::vector<Mark>& b,
          std::string (*look)(const Mark&)) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [look](const Mark& x, const Mark& y) { return look(x) == look(y); });
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

Folding::Stage Folding::stage_of(size_t begin, size_t end) const {
  Stage stage;
  size_t done = begin;
  const auto once_until = [&](size_t next) {
    if (done < next) stage.push_back({done, next - done, 1});
  };
  for (const Run& run :
       find_runs(begin, end, kLongestPeriod, [this](size_t i, size_t j) { return alike(i, j); })) {
    once_until(run.first);
    stage.push_back(run);
    done = run.end();
  }
  once_until(end);
  return stage;
}

// Stages of the same layers in another number may have more or less in their buckets.
bool Folding::same_stage(const Stage& a, const Stage& b) const {
  const auto x = static_cast<size_t>(at(a[0].first).stage);
  const auto y = static_cast<size_t>(at(b[0].first).stage);
  const bool even = Alikes{{a, b}}.even();
  if (a.size() != b.size() || !same(marks_.batch.at(x), marks_.batch.at(y), look_of) ||
      !same(marks_.buckets.at(x), marks_.buckets.at(y), even ? look_of : kind_of))
    return false;
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k].period != b[k].period || (a[k].times == 1) != (b[k].times == 1)) return false;
    for (size_t i = 0; i < a[k].period; ++i)
      if (!alike(a[k].first + i, b[k].first + i)) return false;
  }
  return true;
}

bool Folding::Alikes::even() const {
  return std::all_of(stages.begin(), stages.end(), [&](const Stage& s) {
    return std::equal(s.begin(), s.end(), stages[0].begin(), stages[0].end(),
                      [](const Run& x, const Run& y) { return x.times == y.times; });
  });
}

void Folding::fold_stages() {
  std::vector<Alikes> all;
  for (size_t begin = 0, end = 0; begin < ops_.size(); begin = end) {
    while (end < ops_.size() && at(end).stage == at(begin).stage) ++end;
    const Stage stage = stage_of(begin, end);
    const auto same = std::find_if(all.begin(), all.end(), [&](const Alikes& alikes) {
      return same_stage(alikes.stages[0], stage);
    });
    if (same == all.end())
      all.push_back({{stage}});
    else
      same->stages.push_back(stage);
  }
  for (const Alikes& alikes : all) {
    fold_stage(alikes);
    for (const Stage& stage : alikes.stages)
      for (size_t k = 0; k < stage.size(); ++k)
        for (size_t i = stage[k].first; i < stage[k].end(); ++i)
          replace(i, alikes.stages[0][k].first + (i - stage[k].first) % stage[k].period);
  }
}

void Folding::fold_stage(const Alikes& alikes) {
  int outer = -1;
  if (staged_) {
    outer = static_cast<int>(frames_.size());
    frames_.push_back({stage_title(alikes), -1});
  }
  const Stage& drawn = alikes.stages[0];
  for (size_t i = drawn.front().first; i < drawn.back().end(); ++i)
    frame_of(i) = stage_frame_[static_cast<size_t>(ops_[i])] = outer;
  for (size_t k = 0; k < drawn.size(); ++k)
    if (drawn[k].times == 1)
      frame_layers(drawn[k], outer);
    else
      fold_run(drawn[k], outer, run_title(alikes, k));
}

// What is not folded: a frame for the ops of one layer, if their module says that they are of one.
void Folding::frame_layers(const Run& once, int outer) {
  for (size_t i = once.first; i < once.end(); ++i) {
    const Block block = block_of(at(i).module);
    if (!block.number) continue;
    const bool goes_on = i > once.first && block_of(at(i - 1).module) == block;
    if (!goes_on)
      frames_.push_back(
          {shortened(one_line(one_of(block.stem)), 40) + " " + std::to_string(*block.number),
           outer});
    frame_of(i) = static_cast<int>(frames_.size()) - 1;
  }
}

void Folding::fold_run(const Run& run, int outer, const std::string& title) {
  const auto inner = static_cast<int>(frames_.size());
  frames_.push_back({title, outer});
  for (size_t i = run.first; i < run.first + run.period; ++i) frame_of(i) = inner;
}

void Folding::replace(size_t place, size_t by) {
  stands_for_[static_cast<size_t>(ops_[place])] = stands_for(ops_[by]);
}

std::string Folding::stage_title(const Alikes& alikes) const {
  std::vector<int64_t> numbers;
  for (const Stage& stage : alikes.stages) numbers.push_back(at(stage[0].first).stage);
  if (numbers.size() == 1) return fmt::format("stage {}", numbers[0]);
  return fmt::format("stages {}: {} alike{}", ranges(numbers), numbers.size(),
                     alikes.even() ? "" : " but for how many layers they have");
}

std::string Folding::run_title(const Alikes& alikes, size_t piece) const {
  const Run& run = alikes.stages[0][piece];
  size_t least = run.times, most = run.times;
  for (const Stage& stage : alikes.stages) {
    least = std::min(least, stage[piece].times);
    most = std::max(most, stage[piece].times);
  }
  if (least < most) return fmt::format("{} to {} alike", least, most);
  const auto first = layer_of(at(run.first)), last = layer_of(at(run.end() - 1));
  std::string title = fmt::format("{} alike", run.times);
  if (first && last && *last - *first + 1 == static_cast<int64_t>(run.times))
    title = fmt::format("layers {} to {}: ", *first, *last) + title;
  return title;
}

}  // namespace s2t
