#include "analyzer/program/modules.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/program/owner.h"
#include "analyzer/program/tally.h"

namespace s2t {
namespace {

// One module in one phase of one stage, while its calls are counted.
struct Part {
  Block block;
  Phase phase = Phase::forward;
  Count times = 0;
  std::optional<int64_t> stage;
  std::vector<ModuleCalls> calls;
  std::map<int64_t, size_t> by_call;  // events of one collective -> its entry of `calls`
};

bool fits(const ModuleCalls& c, const Event& e) {
  return c.op == e.op && c.family == e.family && c.dtype == e.dtype && c.least == e.volume &&
         c.most == e.volume;
}

// Another rank's numbers of a call that is counted already.
void widen(ModuleCalls& c, const Volume& v) {
  if (v.input_bytes < c.least.input_bytes) c.least = v;
  if (v.input_bytes > c.most.input_bytes) c.most = v;
}

void count(Part& part, const Event& e) {
  if (e.call >= 0) {
    const auto [at, fresh] = part.by_call.try_emplace(e.call, part.calls.size());
    if (!fresh) return widen(part.calls[at->second], e.volume);
    part.calls.push_back({e.op, e.family, e.dtype, 1, e.volume, e.volume});
    return;
  }
  for (ModuleCalls& c : part.calls)
    if (fits(c, e)) {
      ++c.calls;
      return;
    }
  part.calls.push_back({e.op, e.family, e.dtype, 1, e.volume, e.volume});
}

// Ragged calls of equal extremes are alike only once all ranks are in.
std::vector<ModuleCalls> settled(const std::vector<ModuleCalls>& calls) {
  std::vector<ModuleCalls> result;
  for (const ModuleCalls& c : calls) {
    const auto same = std::find_if(result.begin(), result.end(), [&](const ModuleCalls& r) {
      return std::tie(r.op, r.family, r.dtype, r.least, r.most) ==
             std::tie(c.op, c.family, c.dtype, c.least, c.most);
    });
    if (same == result.end())
      result.push_back(c);
    else
      same->calls += c.calls;
  }
  return result;
}

class Collector {
 public:
  Collector(const Program& program, const Selection& selection)
      : program_(program), selection_(selection) {}

  std::vector<ModuleRow> run() {
    const auto stages = static_cast<int32_t>(program_.stages.size());
    for (int32_t s = 0; s < stages; ++s) segment(s, SpanKind::forward);
    messages(SpanKind::recv_activation, SpanKind::send_activation);
    for (int32_t s = stages; s-- > 0;) segment(s, SpanKind::backward);
    messages(SpanKind::recv_gradient, SpanKind::send_gradient);
    for (const Event& e : program_.after) add(e, 1);
    flush();
    for (ModuleRow& row : rows_) tidy(row);
    return std::move(rows_);
  }

 private:
  Count times(int32_t s, SpanKind kind) const {
    const auto at = occurrences_.find({s, kind});
    return at == occurrences_.end() ? 0 : static_cast<Count>(at->second.times);
  }

  void segment(int32_t s, SpanKind kind) {
    const Stage& stage = program_.stages[static_cast<size_t>(s)];
    const Count n = times(s, kind);
    for (const Segment::Item& item :
         (kind == SpanKind::forward ? stage.forward : stage.backward).items)
      add(item.event, static_cast<Count>(times_run(item, static_cast<int64_t>(n))));
    flush();
  }

  // A rank sends for each of its chunks: what it does once for a microbatch is all of that.
  void messages(SpanKind recv, SpanKind send) {
    for (const SpanKind kind : {recv, send})
      for (size_t s = 0; s < program_.stages.size(); ++s)
        for (const Event& e : border(program_.stages[s], kind))
          add(e, times(static_cast<int32_t>(s), kind));
    flush();
  }

  std::optional<int64_t> pipeline_rank(const Event& e) const {
    if (!e.stage) return std::nullopt;
    return *e.stage % program_.pipeline_ranks;
  }

  void add(const Event& e, Count n) {
    if (n == 0 || !selects(selection_, program_, e)) return;
    const auto rank = pipeline_rank(e);
    const auto [at, fresh] = index_.try_emplace({block_of(e), e.phase, n, rank}, parts_.size());
    if (fresh) parts_.push_back({std::get<0>(at->first), e.phase, n, rank, {}, {}});
    count(parts_[at->second], e);
  }

  // The parts read so far join the rows that do the same.
  void flush() {
    for (const Part& part : parts_) {
      ModuleRow& row = row_of(part, settled(part.calls));
      if (part.block.number) row.numbers.push_back(*part.block.number);
      if (part.stage && !program_.pipeline_axis.empty()) row.stages.push_back(*part.stage);
    }
    parts_.clear();
    index_.clear();
  }

  ModuleRow& row_of(const Part& part, std::vector<ModuleCalls> calls) {
    std::vector<size_t>& alike =
        named_[{part.block.stem, part.block.number.has_value(), part.phase, part.times}];
    for (const size_t i : alike)
      if (rows_[i].calls == calls) return rows_[i];
    alike.push_back(rows_.size());
    rows_.push_back({part.block.stem, {}, part.phase, part.times, {}, std::move(calls)});
    return rows_.back();
  }

  static void tidy(ModuleRow& row) {
    for (std::vector<int64_t>* list : {&row.numbers, &row.stages}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
  }

  const Program& program_;
  const Selection& selection_;
  const Occurrences occurrences_ = count_actions(program_);
  std::vector<Part> parts_;  // of the stage that is read
  std::map<std::tuple<Block, Phase, Count, std::optional<int64_t>>, size_t> index_;  // of parts_
  std::vector<ModuleRow> rows_;
  std::map<std::tuple<std::string, bool, Phase, Count>, std::vector<size_t>> named_;  // of rows_
};

}  // namespace

std::vector<ModuleRow> module_rows(const Program& program, const Selection& selection) {
  return Collector(program, selection).run();
}

}  // namespace s2t
