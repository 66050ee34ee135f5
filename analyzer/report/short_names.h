// Names of axes as pictures print them: a long one loses its middle, and no two look alike. Families
// and layouts, which are made of these names, follow.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "analyzer/mesh/mesh.h"

namespace s2t {

class ShortNames {
 public:
  explicit ShortNames(const Mesh& mesh);

  // Any text with names of axes in it: "tp:S(1) dp:S(0)", `pp-tp`.
  std::string operator()(std::string text) const;

  // What was shortened, as "short: long".
  const std::vector<std::pair<std::string, std::string>>& list() const { return short_to_long_; }

 private:
  std::vector<std::pair<std::string, std::string>> short_to_long_;  // longest long name first
};

}  // namespace s2t
