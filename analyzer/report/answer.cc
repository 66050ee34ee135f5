#include "analyzer/report/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/base/text.h"
#include "analyzer/program/listing.h"
#include "analyzer/program/naming.h"
#include "analyzer/program/tally.h"

namespace s2t {
namespace {

std::optional<int64_t> parse_id(const std::string& text) {
  const bool digits =
      !text.empty() && text.size() < 19 &&
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? std::optional<int64_t>(std::stoll(text)) : std::nullopt;
}

// "0 to 3", or just "0".
std::string from_to(const std::string& first, const std::string& last) {
  return first == last ? first : first + " to " + last;
}

[[noreturn]] void refuse(std::string found, std::string expected, std::string advice) {
  throw UserError("shape2trace", {{"explain", std::move(found), std::move(expected),
                                   std::move(advice), "unknown-event"}});
}

std::string known_ids(const Program& program) {
  const Count events = count_events(program);
  std::string text = events == 0 ? "" : from_to("0", std::to_string(events - 1));
  if (!program.pruned.empty())
    text += (text.empty() ? "" : ", or of those pruned ") +
            from_to(program.pruned.front().id, program.pruned.back().id);
  return text;
}

[[noreturn]] void unknown_word(const Program& program, const std::string& word, bool alone) {
  if (parse_id(word) && !alone)
    refuse("an id, " + quoted(word) + ", among other words", "an id alone, or words", "");
  std::vector<std::string> words = callable_words(program);
  for (const Pruned& p : program.pruned) words.push_back(p.id);
  const std::string ids = known_ids(program);
  if (ids.empty()) refuse("no event " + quoted(word), "none, for the step has no events", "");
  if (parse_id(word)) refuse("no event " + quoted(word), ids, "");
  refuse("no event " + quoted(word),
         ids + ", or a module, tensor, group, phase or kind: " + quoted_list(words, 6),
         did_you_mean(word, words));
}

// Each word names something, but nothing is named by all of them.
[[noreturn]] void nothing_in_common(const Program& program, const std::vector<std::string>& words) {
  std::set<std::string> kinds;
  for_each_summary_event(program, [&](const Event& e) {
    if (is_called(program, e, words.front())) kinds.emplace(info(e.op).name);
  });
  const std::vector<std::string> list(kinds.begin(), kinds.end());
  refuse(fmt::format("no event is all of {}", quoted_list(words)),
         list.empty() ? "words that go together"
                      : fmt::format("of {}: {}", quoted(words.front()), quoted_list(list)),
         "");
}

bool same(const Program& a, const Event& x, const Program& b, const Event& y) {
  return x.op == y.op && x.phase == y.phase && x.tensor == y.tensor && x.node == y.node &&
         a.families.at(x.family).name == b.families.at(y.family).name;
}

// The event itself, and in another step what is like it.
Answer by_itself(const Program& program, Event event, const Pruned* pruned) {
  Answer answer;
  answer.meant = [&program, like = event](const Program& p, const Event& e) {
    return same(program, like, p, e);
  };
  if (pruned) answer.pruned.push_back(pruned);
  answer.events.push_back(std::move(event));
  answer.only = answer.events.data();
  return answer;
}

std::optional<Answer> by_id(const Program& program, const std::string& word) {
  for (const Pruned& p : program.pruned)
    if (p.id == word) {
      Event event = p.event;
      place(program, event);
      return by_itself(program, std::move(event), &p);
    }
  const auto id = parse_id(word);
  if (!id) return std::nullopt;
  std::optional<Event> found;
  for_each_event(program, [&](const Event& e) {
    if (e.id == *id) found = e;
  });
  if (!found) return std::nullopt;
  return by_itself(program, std::move(*found), nullptr);
}

Answer by_words(const Program& program, const std::vector<std::string>& words) {
  Answer answer;
  std::vector<bool> known(words.size(), false);
  answer.meant = [words](const Program& p, const Event& e) {
    return std::all_of(words.begin(), words.end(),
                       [&](const std::string& word) { return is_called(p, e, word); });
  };
  const auto fits = [&](const Event& e) {
    bool all = true;
    for (size_t i = 0; i < words.size(); ++i) {
      const bool called = is_called(program, e, words[i]);
      known[i] = known[i] || called;
      all = all && called;
    }
    return all;
  };
  for_each_summary_event(program, [&](const Event& e) {
    if (fits(e)) answer.events.push_back(e);
  });
  for (const Pruned& p : program.pruned)
    if (fits(p.event)) answer.pruned.push_back(&p);
  for (size_t i = 0; i < words.size(); ++i)
    if (!known[i]) unknown_word(program, words[i], words.size() == 1);
  return answer;
}

// Whether all events are one, issued by different ranks.
bool one_cause(const Answer& answer) {
  return answer.pruned.empty() &&
         std::all_of(answer.events.begin(), answer.events.end(), [&](const Event& e) {
           return e.cause == answer.events.front().cause && e.op == answer.events.front().op;
         });
}

}  // namespace

Answer answer(const Program& program, const std::vector<std::string>& words) {
  if (words.size() == 1)
    if (auto one = by_id(program, words.front())) return std::move(*one);
  Answer answer = by_words(program, words);
  if (answer.events.empty() && answer.pruned.empty()) nothing_in_common(program, words);
  if (answer.events.empty() && answer.pruned.size() == 1)
    return std::move(*by_id(program, answer.pruned.front()->id));
  if (!answer.events.empty() && one_cause(answer)) answer.only = answer.events.data();
  return answer;
}

}  // namespace s2t
