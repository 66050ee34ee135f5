#include "analyzer/report/otherwise.h"

#include <fmt/format.h>

#include <set>

#include "analyzer/base/text.h"
#include "analyzer/program/listing.h"

namespace s2t {
namespace {

struct Calls {
  CallCounts counts;
  // Sizes, and how often per step.
  std::map<std::tuple<std::string, std::string, Phase, Count, Count, int64_t>, Count> sized;
};

Calls calls_of(const Program& program, const Answer& answer) {
  Calls calls;
  std::set<int64_t> seen;
  for_each_summary_event(program, [&](const Event& e) {
    if (!answer.meant(program, e) || !seen.insert(e.call).second) return;
    const std::string name(info(e.op).name), family = program.families.at(e.family).name;
    ++calls.counts[{name, family}];
    ++calls.sized[{name, family, e.phase, e.volume.input_bytes, e.volume.output_bytes, e.repeat}];
  });
  return calls;
}

}  // namespace

std::vector<Effect> effects(const Program& program, const Answer& answer,
                            const OtherSettings& others) {
  std::vector<Effect> list;
  if (!others) return list;
  const Calls now = calls_of(program, answer);
  others([&](const Setting& setting, const Program& other) {
    Calls then = calls_of(other, answer);
    if (then.sized == now.sized) return;
    const bool resized = then.counts == now.counts;
    list.push_back({setting, now.counts, std::move(then.counts), resized});
  });
  return list;
}

std::string text_of(const Effect& effect) {
  if (effect.resized) return "as many, but of other sizes or not as often";
  if (effect.then.empty()) return "none of these";
  CallCounts all = effect.now;
  all.insert(effect.then.begin(), effect.then.end());
  std::vector<std::string> parts;
  for (const auto& entry : all) {
    const auto& key = entry.first;
    const auto count = [&](const CallCounts& calls) {
      const auto at = calls.find(key);
      return at == calls.end() ? Count{0} : at->second;
    };
    const Count was = count(effect.now), is = count(effect.then);
    if (was == is) continue;
    parts.push_back(fmt::format("{} {} over {}{}", is == 0 ? "no" : commas(is), key.first,
                                key.second, is == 0 || was == 0 ? "" : ", not " + commas(was)));
  }
  return join(parts, "; ");
}

}  // namespace s2t
