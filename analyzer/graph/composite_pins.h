// Hands the pinned modes of a composite op on to its steps.
//
// A composite and its steps name their factors differently; dim by dim they are the same. A step
// that holds the factor of split(f) splits it; one that lacks it, or needs all of it, has no pin
// and follows its operands. Only build.cc reads this.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/graph/graph.h"

namespace s2t {

class CompositePins {
 public:
  // `rule` is the composite's, bound; `pins` are its modes, per atom.
  CompositePins(const FactorRule& notation, const BoundRule& rule,
                std::vector<std::optional<Mode>> pins);

  // Pins one step, which reads values of these names (of the notation or of earlier steps).
  void pin(Op& step, const std::vector<std::string>& inputs, const std::string& output);

 private:
  using Dims = std::vector<std::vector<FactorIndex>>;  // per dim, factors of the composite

  std::vector<std::optional<Mode>> pins_;
  std::map<std::string, Dims> dims_;  // by name
};

}  // namespace s2t
