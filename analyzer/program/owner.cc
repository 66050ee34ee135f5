#include "analyzer/program/owner.h"

#include <algorithm>

namespace s2t {
namespace {

bool digit(char c) {
  return c >= '0' && c <= '9';
}

struct Number {
  size_t begin = std::string_view::npos, end = std::string_view::npos;
};

// "layers.12.mlp" and "y12": digits that end a word (before a dot, an underscore or the end).
Number find_number(std::string_view name) {
  for (size_t i = 0; i < name.size(); ++i) {
    if (!digit(name[i])) continue;
    size_t end = i;
    while (end < name.size() && digit(name[end])) ++end;
    const bool ends_word = end == name.size() || name[end] == '.' || name[end] == '_';
    if (ends_word && end - i <= 9) return {i, end};
    i = end;
  }
  return {};
}

std::string_view trimmed(std::string_view stem) {
  while (!stem.empty() && (stem.back() == '.' || stem.back() == '_')) stem.remove_suffix(1);
  return stem;
}

bool synchronises(const Event& event) {
  return event.phase == Phase::grad_sync || event.phase == Phase::step;
}

// Between stages.
bool message(const Event& event) {
  return !event.ring && (event.op == Collective::send || event.op == Collective::recv);
}

// Of a parameter "head.norm.weight", which names no module: "head".
Block block_of_parameter(const std::string& name) {
  Block block = block_of(name);
  if (!block.number && name.find('.') != std::string::npos)
    block.stem = name.substr(0, name.find('.'));
  return block;
}

// The layer or module that all of a bucket's parameters are in, if there is one.
Block block_of_bucket(const std::vector<std::string>& members) {
  const Block first = block_of_parameter(members.front());
  const bool one = std::all_of(members.begin(), members.end(), [&](const std::string& name) {
    return block_of_parameter(name) == first;
  });
  return one ? first : Block{"optimizer", std::nullopt};
}

const std::string& name_of(const Event& event) {
  return event.module.empty() ? event.node : event.module;
}

}  // namespace

Block block_of(std::string_view name) {
  const Number number = find_number(name);
  if (number.begin == std::string_view::npos) return {std::string(name), std::nullopt};
  int64_t n = 0;
  for (size_t i = number.begin; i < number.end; ++i) n = 10 * n + (name[i] - '0');
  const std::string_view stem = trimmed(name.substr(0, number.begin));
  if (stem.empty()) return {std::string(name), std::nullopt};
  return {std::string(stem), n};
}

Block block_of(const Event& event) {
  if (message(event)) return {"pipeline", std::nullopt};
  if (synchronises(event) && event.members.size() > 1) return block_of_bucket(event.members);
  return block_of(name_of(event));
}

std::string owner_of(const Event& event) {
  if (message(event)) return "pipeline";
  if (synchronises(event)) return "optimizer";
  const std::string& name = name_of(event);
  const Number number = find_number(name);
  if (number.begin == std::string_view::npos)
    return event.module.empty() ? name : name.substr(0, name.find('.'));
  if (event.module.empty() || number.end + 1 >= name.size()) return block_of(name).stem;
  const std::string part = name.substr(number.end + 1);
  return part.substr(0, part.find('.'));
}

bool matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool belongs(const Event& event, std::string_view pattern) {
  const std::string_view module = event.module;
  for (size_t dot = module.find('.'); dot != std::string_view::npos;
       dot = module.find('.', dot + 1))
    if (matches(pattern, module.substr(0, dot))) return true;
  return (!module.empty() && matches(pattern, module)) || matches(pattern, event.node) ||
         matches(pattern, owner_of(event));
}

}  // namespace s2t
