// The stable names of errors and remarks, each with what it says: what `list errors` prints. A test
// compares this table with the sources, in both directions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace s2t {

struct Slug {
  enum class Kind : uint8_t { command, file, json, model, remark, fault };
  std::string_view name;
  Kind kind;
  std::string_view meaning;
};

std::span<const Slug> slugs();
std::string_view to_string(Slug::Kind kind);

}  // namespace s2t
