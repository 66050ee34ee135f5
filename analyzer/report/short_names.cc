#include "analyzer/report/short_names.h"

#include <algorithm>
#include <set>

#include "analyzer/report/table.h"

namespace s2t {
namespace {

constexpr size_t kLongest = 16;  // columns

}  // namespace

ShortNames::ShortNames(const Mesh& mesh) {
  std::set<std::string> used;
  for (const std::string& name : mesh.axis_names()) {
    const std::string text = shortened(name, kLongest);
    std::string unique = text;
    for (int n = 2; !used.insert(unique).second; ++n) unique = text + "~" + std::to_string(n);
    if (unique != name) short_to_long_.emplace_back(unique, name);
  }
  std::stable_sort(short_to_long_.begin(), short_to_long_.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
}

std::string ShortNames::operator()(std::string text) const {
  for (const auto& [brief, name] : short_to_long_)
    for (size_t at = text.find(name); at != std::string::npos;
         at = text.find(name, at + brief.size()))
      text.replace(at, name.size(), brief);
  return text;
}

}  // namespace s2t
