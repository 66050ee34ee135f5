#include "analyzer/report/tallied.h"

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/report/words.h"

namespace s2t {

std::vector<CountedRow> counted(const Program& program, const std::vector<Event>& events) {
  std::vector<Counted> order;
  std::map<Counted, std::map<int64_t, std::set<int64_t>>> calls;  // by number of the layer
  for (const Event& e : events) {
    const Block block = block_of(e);
    const Counted what{block.stem, block.number.has_value(),        e.phase, e.op,
                       e.family,   program.causes.at(e.cause).kind, e.repeat};
    const auto [at, fresh] = calls.try_emplace(what);
    if (fresh) order.push_back(what);
    at->second[block.number.value_or(0)].insert(e.call);
  }
  std::vector<CountedRow> rows;
  for (const Counted& what : order) {
    const size_t first = rows.size();
    for (const auto& [number, of_number] : calls.at(what)) {
      const auto n = static_cast<Count>(of_number.size());
      auto row = std::find_if(rows.begin() + static_cast<std::ptrdiff_t>(first), rows.end(),
                              [&](const CountedRow& r) { return r.calls == n; });
      if (row == rows.end()) row = rows.insert(rows.end(), {what, {}, n});
      if (what.numbered) row->numbers.push_back(number);
    }
  }
  return rows;
}

std::string modules_text(const CountedRow& row) {
  return row.numbers.empty() ? row.what.stem : row.what.stem + " " + ranges(row.numbers);
}

}  // namespace s2t
