#include "analyzer/program/naming.h"

#include <algorithm>
#include <set>

#include "analyzer/program/owner.h"

namespace s2t {
namespace {

// "All-Gathers" -> "allgather".
std::string plain(std::string_view word) {
  std::string text;
  for (const char c : word)
    if (c != '_' && c != '-') text += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (text.size() > 1 && text.back() == 's') text.pop_back();
  return text;
}

// Collects words in the order in which they come, each once.
class Words {
 public:
  void add(std::string_view word) {
    if (!word.empty() && seen_.emplace(word).second) list_.emplace_back(word);
  }
  void add_with_parts(const std::string& module) {
    for (size_t dot = module.find('.'); dot != std::string::npos; dot = module.find('.', dot + 1))
      add(std::string_view(module).substr(0, dot));
    add(module);
  }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::set<std::string, std::less<>> seen_;
  std::vector<std::string> list_;
};

}  // namespace

bool is_called(const Program& program, const Event& event, std::string_view word) {
  const Family& family = program.families.at(event.family);
  const auto fits = [&](const std::string& name) { return matches(word, name); };
  return plain(word) == plain(info(event.op).name) || word == to_string(event.phase) ||
         word == to_string(program.causes.at(event.cause).kind) || word == family.name ||
         std::find(family.axes.begin(), family.axes.end(), word) != family.axes.end() ||
         belongs(event, word) || fits(event.tensor) ||
         std::any_of(event.members.begin(), event.members.end(), fits);
}

std::vector<std::string> callable_words(const Program& program) {
  Words words;
  for_each_stored_event(program, [&](const Event& e) { words.add_with_parts(e.module); });
  for_each_stored_event(program, [&](const Event& e) {
    words.add(e.node);
    words.add(owner_of(e));
    words.add(info(e.op).name);
    words.add(program.families.at(e.family).name);
    for (const std::string& axis : program.families.at(e.family).axes) words.add(axis);
    words.add(to_string(e.phase));
    words.add(to_string(program.causes.at(e.cause).kind));
    words.add(e.tensor);
    for (const std::string& member : e.members) words.add(member);
  });
  return words.take();
}

}  // namespace s2t
